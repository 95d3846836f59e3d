/* Both ends of the stream of the flow "compiled": flow make SEED COUNT, flow watch SEEDS. Values go to DIEL_RESULT. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "diel.h"

enum { SMALL = 3, LARGE = 10000, SEEDS = 8 };

static void need(int code)
{
    if (code) {
        fprintf(stderr, "%s\n", diel_error());
        exit(1);
    }
}

static void result(const char *name, long value)
{
    FILE *file = fopen(getenv("DIEL_RESULT"), "w");
    if (!file || fprintf(file, "{\"%s\": %ld}", name, value) < 0 || fclose(file))
        exit(1);
}

static void make(long seed, long count)
{
    static int64_t values[LARGE];
    char json[100];
    diel_stream *samples;
    need(diel_open(&samples, "samples", DIEL_LAUNCHED));
    for (long number = 0; number < count; number++) {
        int64_t size = number % 97 == 0 ? LARGE : SMALL; /* a large one goes through a file */
        diel_array x = {"[\"x\"]", DIEL_I64, 1, &size, values};
        diel_item item = {json, NULL, 0, 1, &x, NULL, NULL};
        for (int64_t n = 0; n < size; n++)
            values[n] = number;
        snprintf(json, sizeof json, "{\"at\": [%ld, %ld], \"x\": null}", seed, number);
        need(diel_put(samples, &item, DIEL_FOREVER));
        nanosleep(&(struct timespec){0, 8000000}, NULL);
    }
    need(diel_close(samples));
    result("made", count);
}

/* Gets all; a new attempt gets again what the one before did not commit. */
static void watch(void)
{
    long last[SEEDS], seed, number;
    diel_stream *samples;
    diel_item item;
    int code;
    for (int n = 0; n < SEEDS; n++)
        last[n] = -1;
    need(diel_open(&samples, "samples", DIEL_LAUNCHED));
    while (!(code = diel_get(samples, &item, DIEL_FOREVER))) {
        const diel_array *x = item.arrays;
        const int64_t *values = x->data;
        if (sscanf(item.json, "{\"at\": [%ld, %ld]", &seed, &number) != 2 &&
            sscanf(item.json, "{\"at\":[%ld,%ld]", &seed, &number) != 2)
            exit(2);
        if (number != last[seed] + 1 || x->shape[0] != (number % 97 ? SMALL : LARGE))
            exit(3);
        for (int64_t n = 0; n < x->shape[0]; n++)
            if (values[n] != number)
                exit(4);
        last[seed] = number;
        diel_release(&item);
    }
    if (code != DIEL_END)
        need(code);
    long read = (long)diel_number(samples);
    need(diel_close(samples));
    result("read", read);
}

int main(int argc, char **argv)
{
    if (argc == 4)
        make(atol(argv[2]), atol(argv[3]));
    else
        watch();
    return 0;
}
