/* The right half of a heated plate, beside a task that has the left one: simulation.heat:part in C.

       heat_part ROWS COLUMNS STEPS

   The halves exchange their edges after each step through the run's tuple space, under the keys that the Python
   module uses: ["plate", from, to, step]. Writes field.npy, and to DIEL_RESULT how often it exchanged. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diel.h"

static const double RATE = 0.2; /* time step over the square of the grid's, stable up to 1/4 */
static const double PATIENCE = 120;

static void need(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "heat_part: %s: %s\n", what, diel_error());
        exit(1);
    }
}

/* The plate before the first step, from column `first` on: a hot edge on the left, a hot spot left of its middle. */
static void start(double *field, int rows, int columns, int first)
{
    int width = columns - first;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++) {
            double down = (double)i / (rows - 1), along = (double)(first + j) / (columns - 1);
            double far = (along - 0.45) * (along - 0.45) + (down - 0.4) * (down - 0.4);
            int edge = i == 0 || i == rows - 1 || first + j == columns - 1;
            field[i * width + j] = first + j == 0 ? 1 : edge ? 0 : 2 * exp(-80 * far);
        }
}

static void step(const double *old, double *new, int rows, int width)
{
    memcpy(new, old, sizeof *old * (size_t)rows * (size_t)width);
    for (int i = 1; i < rows - 1; i++)
        for (int j = 1; j < width - 1; j++) {
            const double *at = old + i * width + j;
            new[i * width + j] += RATE * (at[-width] + at[width] + at[-1] + at[1] - 4 * *at);
        }
}

/* Hands the second column to the left half, and takes its edge for the first. */
static void exchange(diel_space *space, double *field, double *edge, int rows, int width, int now)
{
    char key[80];
    int64_t shape[] = {rows};
    diel_array array = {NULL, DIEL_F64, 1, shape, edge};
    diel_item item = {NULL, NULL, 0, 1, &array, NULL, NULL}, found;
    for (int i = 0; i < rows; i++)
        edge[i] = field[i * width + 1];
    snprintf(key, sizeof key, "[\"plate\", 1, 0, %d]", now);
    need(diel_space_put(space, key, &item) == DIEL_OK, key);
    snprintf(key, sizeof key, "[\"plate\", 0, 1, %d]", now);
    need(diel_space_take(space, key, &found, PATIENCE) == DIEL_OK, key);
    need(found.count == 1 && found.arrays->ndim == 1 && found.arrays->shape[0] == rows, "an edge of another size");
    for (int i = 0; i < rows; i++)
        field[i * width] = ((const double *)found.arrays->data)[i];
    diel_release(&found);
}

/* The columns of this half, without its neighbour's, in numpy's format. */
static int write_field(const double *field, int rows, int width)
{
    char head[118];
    FILE *file = fopen("field.npy", "wb");
    int size = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d)}", DIEL_F64, rows,
                        width - 1);
    memset(head + size, ' ', sizeof head - (size_t)size);
    head[sizeof head - 1] = '\n';
    int good = file && fwrite("\x93NUMPY\1\0\x76\0", 10, 1, file) == 1 && fwrite(head, sizeof head, 1, file) == 1;
    for (int i = 0; good && i < rows; i++)
        good = fwrite(field + i * width + 1, sizeof *field * (size_t)(width - 1), 1, file) == 1;
    return file && !fclose(file) && good;
}

int main(int argc, char **argv)
{
    int rows = argc == 4 ? atoi(argv[1]) : 0, columns = rows ? atoi(argv[2]) : 0, steps = rows ? atoi(argv[3]) : 0;
    int first = columns / 2 - 1, width = columns - first; /* with the neighbour's last column */
    if (rows < 3 || columns < 4)
        return fprintf(stderr, "usage: heat_part ROWS COLUMNS STEPS\n"), 2;
    double *field = malloc(sizeof *field * (size_t)rows * (size_t)width), *edge = malloc(sizeof *edge * (size_t)rows);
    double *next = malloc(sizeof *next * (size_t)rows * (size_t)width), *swap;
    diel_space *space;
    if (!field || !next || !edge)
        return perror("heat_part"), 1;
    need(diel_space_open(&space, DIEL_LAUNCHED) == DIEL_OK, "the tuple space");
    start(field, rows, columns, first);
    for (int now = 0; now < steps; now++) {
        step(field, next, rows, width);
        swap = field, field = next, next = swap;
        exchange(space, field, edge, rows, width, now);
    }
    diel_space_close(space);
    FILE *result = fopen(getenv("DIEL_RESULT"), "w");
    if (!write_field(field, rows, width) || !result || fprintf(result, "{\"exchanged\": %d}", steps) < 0 ||
        fclose(result))
        return perror("heat_part"), 1;
    return 0;
}
