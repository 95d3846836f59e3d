/* Tasks for test_killed.py as tests/streams/killed.py has them: killed make|use|share … */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diel.h"

enum { TOGETHER = 50, LARGE = 10000 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, diel_error());
    return 1;
}

static int make(const char *member, long count)
{
    static int64_t numbers[LARGE];
    int64_t shape[] = {LARGE};
    char line[200];
    diel_stream *stream;
    if (diel_open(&stream, "x", DIEL_LAUNCHED))
        return failed("open");
    for (long number = 0; number < count; number++) {
        for (int n = 0; number % 97 == 0 && n < LARGE; n++)
            numbers[n] = number;
        snprintf(line, sizeof line, "[\"%s\",%ld]", member, number);
        if (number % 97 == 0 ? diel_put_array(stream, DIEL_I64, 1, shape, numbers, DIEL_FOREVER)
                             : diel_put_json(stream, line, DIEL_FOREVER))
            return failed("put");
    }
    return diel_close(stream) ? failed("close") : 0;
}

static int commit(diel_stream *stream, const char *member, const char *results, long begun, const char *part)
{
    char path[600], temporary[640];
    snprintf(path, sizeof path, "%s/%s-%08ld.json", results, member, begun);
    for (char *at = path + strlen(results) + 1; *at; at++)
        *at = *at == '/' ? '-' : *at;
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    FILE *file = fopen(temporary, "w");
    if (!file || fprintf(file, "[%s]", part) < 0 || fclose(file) || rename(temporary, path))
        return perror(path), 1;
    return diel_commit(stream) ? failed("commit") : 0;
}

static int use(const char *member, const char *results)
{
    static char part[TOGETHER * 200];
    diel_stream *stream;
    diel_item item;
    int code, held = 0;
    if (diel_open(&stream, "x", DIEL_LAUNCHED))
        return failed("open");
    long begun = (long)diel_number(stream);
    while (!(code = diel_get(stream, &item, DIEL_FOREVER))) {
        const int64_t *numbers = item.count ? item.arrays->data : NULL;
        char *end = part + strlen(part);
        if (numbers)
            sprintf(end, "%s[\"array\",%ld,%ld]", held ? "," : "", (long)numbers[0],
                    (long)numbers[item.arrays->shape[0] - 1]);
        else
            sprintf(end, "%s%s", held ? "," : "", item.json);
        diel_release(&item);
        if (++held == TOGETHER) {
            if (commit(stream, member, results, begun, part))
                return 1;
            begun = (long)diel_number(stream), held = 0, *part = '\0';
        }
    }
    if (code != DIEL_END)
        return failed("get");
    return commit(stream, member, results, begun, part) || (diel_close(stream) ? failed("close") : 0);
}

static int share(long count)
{
    diel_space *space;
    diel_item item;
    double value;
    char text[40];
    if (diel_space_open(&space, DIEL_LAUNCHED))
        return failed("space");
    for (; count; count--) {
        if (diel_space_take(space, "[\"sum\"]", &item, DIEL_FOREVER) || diel_json_number(item.json, NULL, &value))
            return failed("take");
        diel_release(&item);
        snprintf(text, sizeof text, "%ld", (long)value + 1);
        item.json = text;
        if (diel_space_put(space, "[\"sum\"]", &item))
            return failed("put");
    }
    diel_space_close(space);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "make"))
        return make(argv[2], atol(argv[3]));
    if (argc == 4 && !strcmp(argv[1], "use"))
        return use(argv[2], argv[3]);
    if (argc == 3 && !strcmp(argv[1], "share"))
        return share(atol(argv[2]));
    return 2;
}
