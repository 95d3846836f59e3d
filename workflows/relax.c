/* Relaxes a Lennard-Jones cluster: N atoms from a Mackay icosahedron to their energy's minimum, on MPI ranks.
 *
 *     mpicc -O2 -o relax relax.c -lm
 *     mpiexec -n 4 ./relax relax.in
 *
 * E = sum over pairs of 4 eps ((sigma/r)^12 - (sigma/r)^6), without a cutoff. The minimizer is FIRE (Bitzek et al.,
 * Phys. Rev. Lett. 97, 170201 (2006)); all ranks hold all atoms and share the pairs. It reads `name = value` lines:
 * shells, epsilon (eV), sigma (A), force_tolerance (eV/A, of the largest force), max_steps. It writes relaxed.xyz. Its
 * exit code is 0, 1 for a wrong input, 3 if it did not converge.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SHELLS 6
#define MAX_ATOMS 1024

static double x[3 * MAX_ATOMS], v[3 * MAX_ATOMS], f[3 * MAX_ATOMS];
static double epsilon = 1, sigma = 1, tolerance = 1e-6;
static int shells = 2, max_steps = 5000, n, rank, ranks;

static void fail(const char *why, const char *what)
{
    if (rank == 0)
        fprintf(stderr, "relax: %s: %s\n", why, what);
    MPI_Finalize();
    exit(1);
}

static void read_input(const char *path)
{
    struct { const char *name; double *real; int *whole; } keys[] = {
        {"epsilon", &epsilon, 0}, {"sigma", &sigma, 0},           {"force_tolerance", &tolerance, 0},
        {"shells", 0, &shells},   {"max_steps", 0, &max_steps},
    };
    char line[256], name[64], value[64];
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot read", path);
    while (fgets(line, sizeof line, file)) {
        int known = 0;
        if (sscanf(line, " %63[a-z_] = %63s", name, value) != 2)
            continue;
        for (unsigned key = 0; key < sizeof keys / sizeof *keys; key++)
            if (strcmp(name, keys[key].name) == 0) {
                char *end;
                double number = strtod(value, &end);
                known = *end == 0;
                if (keys[key].real)
                    *keys[key].real = number;
                else
                    *keys[key].whole = (int)number;
            }
        if (!known)
            fail("no such key, or no number", line);
    }
    fclose(file);
    if (shells < 1 || shells > MAX_SHELLS || epsilon <= 0 || sigma <= 0 || tolerance <= 0)
        fail("out of range", path);
}

static void add(double a, const double *p, double b, const double *q, double c, const double *r)
{
    for (int k = 0; k < 3; k++)
        x[3 * n + k] = a * p[k] + (b ? b * q[k] : 0) + (c ? c * r[k] : 0);
    n++;
}

/* A central atom, and shells with their atoms on the corners, edges and faces of icosahedra. Neighbours are a little
 * too far apart, and the atoms a little off their places, by the same numbers everywhere: there is work to do. */
static void build(void)
{
    static double corner[12][3];
    const double golden = (1 + sqrt(5)) / 2, scale = 1.15 * sigma / 2;
    int count = 0;
    for (int k = 0; k < 3; k++)
        for (int a = -1; a <= 1; a += 2)
            for (int b = -1; b <= 1; b += 2) {
                corner[count][(k + 1) % 3] = a * scale;
                corner[count++][(k + 2) % 3] = b * golden * scale;
            }
#define NEAR(i, j) (hypot(hypot(corner[i][0] - corner[j][0], corner[i][1] - corner[j][1]), \
                          corner[i][2] - corner[j][2]) < 2.1 * scale)
    n = 1;
    for (int s = 1; s <= shells; s++)
        for (int i = 0; i < 12; i++) {
            add(s, corner[i], 0, 0, 0, 0);
            for (int j = 0; j < i; j++) {
                if (!NEAR(i, j))
                    continue;
                for (int a = 1; a < s; a++)
                    add(a, corner[i], s - a, corner[j], 0, 0);
                for (int k = 0; k < j; k++)
                    if (NEAR(i, k) && NEAR(j, k))
                        for (int a = 1; a < s; a++)
                            for (int b = 1; a + b < s; b++)
                                add(a, corner[i], b, corner[j], s - a - b, corner[k]);
            }
        }
    unsigned state = 12345;
    for (int i = 0; i < 3 * n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] += 0.05 * sigma * (state / 4294967296.0 - 0.5);
    }
}

/* Energy (eV) and forces (eV/A); each rank takes every ranks-th atom's pairs, then all are summed. */
static double energy_and_forces(void)
{
    static double part[3 * MAX_ATOMS + 1], whole[3 * MAX_ATOMS + 1];
    memset(part, 0, sizeof part);
    for (int i = rank; i < n; i += ranks)
        for (int j = 0; j < i; j++) {
            double d[3], r2 = 0;
            for (int k = 0; k < 3; k++) {
                d[k] = x[3 * i + k] - x[3 * j + k];
                r2 += d[k] * d[k];
            }
            double s6 = pow(sigma * sigma / r2, 3), pull = 24 * epsilon * s6 * (2 * s6 - 1) / r2;
            part[3 * n] += 4 * epsilon * s6 * (s6 - 1);
            for (int k = 0; k < 3; k++) {
                part[3 * i + k] += pull * d[k];
                part[3 * j + k] -= pull * d[k];
            }
        }
    MPI_Allreduce(part, whole, 3 * n + 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    memcpy(f, whole, sizeof(double) * 3 * n);
    return whole[3 * n];
}

static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < 3 * n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double largest_force(void)
{
    double largest = 0;
    for (int i = 0; i < 3 * n; i += 3)
        largest = fmax(largest, sqrt(f[i] * f[i] + f[i + 1] * f[i + 1] + f[i + 2] * f[i + 2]));
    return largest;
}

static void write_atoms(double energy)
{
    FILE *file = fopen("relaxed.xyz", "w");
    if (!file)
        fail("cannot write", "relaxed.xyz");
    fprintf(file, "%d\nProperties=species:S:1:pos:R:3 energy=%.10f pbc=\"F F F\"\n", n, energy);
    for (int i = 0; i < 3 * n; i += 3)
        fprintf(file, "X %14.8f %14.8f %14.8f\n", x[i], x[i + 1], x[i + 2]);
    fclose(file);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 2)
        fail("expected one argument", "the input file");
    read_input(words[1]);
    build();
    /* Time in units of sqrt(sigma^2 / epsilon), with masses of one: the same steps for every element. */
    const double unit = sigma / sqrt(epsilon), longest = 0.04 * unit;
    double step = 0.005 * unit, mixing = 0.1, energy = energy_and_forces(), largest = largest_force();
    int downhill = 0, taken = 0;
    if (rank == 0)
        printf("     Lennard-Jones cluster: %d atoms, %d ranks\n\n     step     energy (eV)   largest force (eV/A)\n", n,
               ranks);
    for (; largest > tolerance && taken < max_steps; taken++) {
        double power = dot(f, v), pull = mixing * sqrt(dot(v, v) / dot(f, f));
        if (rank == 0 && taken % 100 == 0)
            printf("     %4d  %14.8f  %14.3E\n", taken, energy, largest);
        for (int i = 0; i < 3 * n; i++)
            v[i] = power > 0 ? (1 - mixing) * v[i] + pull * f[i] : 0;
        if (power <= 0) {
            downhill = 0;
            step *= 0.5;
            mixing = 0.1;
        } else if (++downhill > 5) {
            step = fmin(1.1 * step, longest);
            mixing *= 0.99;
        }
        for (int i = 0; i < 3 * n; i++) {
            v[i] += step * f[i];
            x[i] += step * v[i];
        }
        energy = energy_and_forces();
        largest = largest_force();
    }
    if (rank == 0) {
        printf("\n!    total energy              = %16.10f eV\n     largest force             = %16.3E eV/A\n", energy, largest);
        printf("     convergence %s in %d steps\n", largest > tolerance ? "NOT achieved" : "has been achieved", taken);
        write_atoms(energy);
    }
    MPI_Finalize();
    return largest > tolerance ? 3 : 0;
}
