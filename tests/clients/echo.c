/* echo: puts each item of `given` into `made` as it is. echo wrong: says what five mistakes are called. */
#include <stdio.h>
#include <string.h>

#include "diel.h"

static int failed(void)
{
    fprintf(stderr, "%s\n", diel_error());
    return 1;
}

static int echo(void)
{
    diel_stream *given, *made;
    diel_item item;
    int code;
    if (diel_open(&given, "given", DIEL_LAUNCHED) || diel_open(&made, "made", DIEL_LAUNCHED))
        return failed();
    while (!(code = diel_get(given, &item, DIEL_FOREVER))) {
        if (diel_put(made, &item, 60))
            return failed();
        diel_release(&item);
    }
    if (code != DIEL_END || diel_close(given) || diel_close(made))
        return failed();
    return 0;
}

static int wrong(void)
{
    diel_stream *given, *made;
    diel_space *space;
    diel_item item, text = {"tru", NULL, 0, 0, NULL, NULL, NULL};
    double number;
    if (diel_open(&given, "given", DIEL_LAUNCHED) || diel_open(&made, "made", DIEL_LAUNCHED) ||
        diel_space_open(&space, DIEL_LAUNCHED))
        return failed();
    printf("%d %s\n", diel_put_json(made, "{\"a\": 1,}", DIEL_FOREVER), diel_error());
    printf("%d %s\n", diel_put_json(made, "\"M\xfcnchen\"", DIEL_FOREVER), diel_error());
    printf("%d %s\n", diel_put_array(made, "d", 0, NULL, &number, DIEL_FOREVER), diel_error());
    printf("%d %s\n", diel_put_json(given, "1", DIEL_FOREVER), diel_error());
    printf("%d %s\n", diel_get(given, &item, 0.01), diel_error());
    printf("%d %s\n", diel_space_put(space, "sum", &text), diel_error());
    printf("%d %s\n", diel_space_put(space, "[null]", &(diel_item){"1", NULL, 0, 0, NULL, NULL, NULL}), diel_error());
    printf("%d %s\n", diel_space_take(space, "[\"sum\"]", &item, 0.01), diel_error());
    printf("%d %s\n", diel_open(&given, "givne", DIEL_LAUNCHED), diel_error());
    return 0;
}

int main(int argc, char **argv) { return argc == 2 && !strcmp(argv[1], "wrong") ? wrong() : echo(); }
