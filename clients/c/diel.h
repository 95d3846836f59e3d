/* diel.h: streams and the tuple space of a diel run, for programs in C (C99 and POSIX) and Fortran (diel.f90).

   A program that a stage's command starts finds its streams, its task and its run in the surroundings that diel
   gives it; nothing has to be passed on. What it puts and gets are the items that Python modules and
   `diel stream` put and get, with the same promises (docs/streams.md): when the broker is killed and started
   anew, nothing is lost and nothing comes twice. docs/c.md has the guide.

       diel_stream *samples;
       if (diel_open(&samples, "samples", DIEL_LAUNCHED)) { fprintf(stderr, "%s\n", diel_error()); return 1; }
       diel_put_array(samples, DIEL_F64, 2, shape, positions, DIEL_FOREVER);
       diel_close(samples);

   Each function that returns `int` returns DIEL_OK or one of the codes below; diel_error() then has the words.
   Threads may use different ends at the same time; one end is used by one thread at a time. A forked child opens
   ends of its own. */
#ifndef DIEL_H
#define DIEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DIEL_OK = 0,
    DIEL_END = 1,     /* the stream has ended, and all its items were got */
    DIEL_TIMEOUT = 2, /* nothing came, or no room was made, in time; try again */
    DIEL_BROKEN = 3,  /* the stream lacks items: this task can have no result */
    DIEL_LOST = 4,    /* no broker answers for ten minutes */
    DIEL_REFUSED = 5, /* the broker refuses: another attempt took over, the stream was closed, … */
    DIEL_USAGE = 6,   /* no such stream here, text that is no JSON, … */
    DIEL_SYSTEM = 7   /* a file cannot be written or read, or memory is short */
};

#define DIEL_FOREVER (-1.0) /* a timeout, in seconds */
#define DIEL_LAUNCHED (-1)  /* a rank: the launcher's number, where the task has several ranks */

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define DIEL_ENDIAN ">"
#else
#define DIEL_ENDIAN "<"
#endif
/* Types of an array's elements, as numpy writes them; any other text of numpy's will do too. */
#define DIEL_F64 DIEL_ENDIAN "f8"
#define DIEL_F32 DIEL_ENDIAN "f4"
#define DIEL_I64 DIEL_ENDIAN "i8"
#define DIEL_I32 DIEL_ENDIAN "i4"
#define DIEL_C128 DIEL_ENDIAN "c16"
#define DIEL_U8 "|u1"

/* An array in C order: the last index is the fastest. */
typedef struct {
    const char *at;       /* its place in the item as a JSON list of keys and indices, ["positions"]; NULL: the
                             item is the array */
    const char *dtype;    /* DIEL_F64, … */
    int ndim;             /* 0 to 32 */
    const int64_t *shape; /* of ndim sizes */
    const void *data;
} diel_array;

/* An item: bytes; or JSON, with null in the places of arrays. To put one, fill in what it has and leave the rest 0.
   One that was got is read-only, and stays until diel_release. */
typedef struct {
    const char *json;  /* NULL where the item is bytes */
    const void *bytes; /* NULL where it is not */
    size_t size;       /* of bytes */
    size_t count;      /* of arrays */
    const diel_array *arrays;
    const char *key; /* of a tuple: a JSON list */
    void *held;      /* the library's */
} diel_item;

typedef struct diel_stream diel_stream; /* the task's end of a stream */
typedef struct diel_space diel_space;   /* the tuple space */

/* Why the last call of this thread failed. */
const char *diel_error(void);

/* Opens the task's end of the stream NAME, for putting if it is an output of the stage and for getting if it is an
   input; waits until the stream is open. Another process of the same attempt goes on where this one stopped. */
int diel_open(diel_stream **stream, const char *name, int rank);

/* Puts an item. Returns once it is on its way; waits while the readers' buffer is full (DIEL_TIMEOUT). */
int diel_put(diel_stream *stream, const diel_item *item, double timeout);
int diel_put_json(diel_stream *stream, const char *json, double timeout);
int diel_put_bytes(diel_stream *stream, const void *bytes, size_t size, double timeout);
int diel_put_array(diel_stream *stream, const char *dtype, int ndim, const int64_t *shape, const void *data,
                   double timeout);
/* Waits until the broker has all items that were put on the disk. */
int diel_flush(diel_stream *stream, double timeout);

/* The next item: DIEL_OK, DIEL_END, DIEL_TIMEOUT, DIEL_BROKEN, … Release it after use. */
int diel_get(diel_stream *stream, diel_item *item, double timeout);
void diel_release(diel_item *item);
/* Marks what was got so far as done: a new attempt of the task continues after it. */
int diel_commit(diel_stream *stream);

/* Items put, or got, so far, by earlier attempts too where they came again. */
int64_t diel_number(const diel_stream *stream);
/* For a program that continues from a checkpoint: the next item is the one after all that are known; how many. */
int64_t diel_resume(diel_stream *stream);

/* Flushes and leaves, having put everything, or got what it wanted. Frees the end in any case. A task whose
   program did not close a stream has no result. */
int diel_close(diel_stream *stream);
/* As diel_close, for a program that has failed before it put everything: its task fails. */
int diel_give_up(diel_stream *stream);

/* The tuple space. A key is a JSON list of texts, numbers and booleans; in a pattern null matches anything. */
int diel_space_open(diel_space **space, int rank);
int diel_space_put(diel_space *space, const char *key, const diel_item *value);
/* The oldest matching tuple; the item's `key` is its key. `read` leaves it there, `take` removes it. */
int diel_space_read(diel_space *space, const char *pattern, diel_item *found, double timeout);
int diel_space_take(diel_space *space, const char *pattern, diel_item *found, double timeout);
/* A new attempt does not repeat what was done so far: it continues after it. */
int diel_space_commit(diel_space *space);
void diel_space_close(diel_space *space);

/* The number at a key of a JSON object, or at an index (as text) of a JSON list; KEY NULL: the JSON is the number.
   DIEL_USAGE if there is none. */
int diel_json_number(const char *json, const char *key, double *number);

#ifdef __cplusplus
}
#endif
#endif
