/* What streams.py does in Python, in C: ends put|get small|arrays. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "diel.h"

enum { SMALL = 100000, ARRAYS = 2048, VALUES = 1024 * 1024 / 8 };

static void need(int code)
{
    if (code) {
        fprintf(stderr, "%s\n", diel_error());
        exit(1);
    }
}

static void say_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%.9f\n", (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static double values[VALUES];
    const int64_t shape[] = {VALUES};
    int putting = argc == 3 && !strcmp(argv[1], "put"), small = argc == 3 && !strcmp(argv[2], "small");
    char line[100];
    double found;
    diel_stream *stream;
    diel_item item;
    need(diel_open(&stream, "x", DIEL_LAUNCHED));
    puts("\"ready\"");
    fflush(stdout);
    if (putting)
        say_time();
    for (int n = 0; n < VALUES; n++)
        values[n] = 1;
    for (int n = 0; n < (small ? SMALL : ARRAYS); n++) {
        if (putting && small) {
            snprintf(line, sizeof line, "{\"step\":%d,\"energy\":%g,\"temperature\":%g}", n, -1.5, 0.7);
            need(diel_put_json(stream, line, DIEL_FOREVER));
        } else if (putting) {
            values[0] = n;
            need(diel_put_array(stream, DIEL_F64, 1, shape, values, DIEL_FOREVER));
        } else {
            need(diel_get(stream, &item, DIEL_FOREVER));
            if (small)
                need(diel_json_number(item.json, "step", &found));
            else
                found = *(const double *)item.arrays->data;
            if (found != n)
                return 2;
            diel_release(&item);
        }
    }
    if (!putting)
        say_time();
    need(diel_close(stream));
    return 0;
}
