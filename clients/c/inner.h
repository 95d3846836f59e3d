/* What the files of the library share: texts and JSON (json.c), items (items.c), the wire (wire.c), the ends
   (ends.c). Names that begin with `diel_i_` are no part of the interface. */
#ifndef DIEL_INNER_H
#define DIEL_INNER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pwritev, pipe2 */
#endif
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "diel.h"

enum {
    DIEL_LARGE = 64 * 1024,       /* from this many bytes on, an item goes into a file */
    DIEL_PARTS = 1000,            /* parts of an item that one call of the system writes */
    DIEL_BATCH_ITEMS = 4096,      /* of one message, as the limits below: those of diel/streams/ends.py */
    DIEL_BATCH_BYTES = 256 * 1024,
    DIEL_AHEAD_BYTES = 8 * 1024 * 1024,
    DIEL_UNDER_WAY = 8
};

/* --- json.c: texts that grow, and finding one's way in JSON without a tree ---------------------------------- */

typedef struct {
    char *data; /* NULL while empty; always ends with a NUL that `size` does not count */
    size_t size, room;
    bool failed; /* memory was short */
} text;

void diel_i_add(text *to, const void *bytes, size_t size);
void diel_i_addf(text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diel_i_add_quoted(text *to, const char *plain);
void diel_i_forget(text *one); /* frees it and leaves it empty */

/* One JSON value within a text: [from, to). from is NULL where there is none. */
typedef struct {
    const char *from, *to;
} json;

json diel_i_json(const char *from, const char *to);        /* the whole text, which must be one value */
json diel_i_member(json object, const char *key);          /* of an object */
bool diel_i_next(json within, json *item, json *key);      /* next element, or member; *item {NULL} begins */
bool diel_i_true(json value);
bool diel_i_int(json value, int64_t *number);
char *diel_i_plain(json value);                            /* a text without its quotes and escapes; malloc */

int diel_i_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- items.c: items as bytes, and the files of large ones ----------------------------------------------------- */

typedef struct {
    struct iovec *parts;
    int count;
    size_t size;
    text head, zeros;
} encoded;

int diel_i_encode(const diel_item *item, encoded *found); /* the parts point into item; free with encoded_free */
void diel_i_encoded_free(encoded *one);
int diel_i_decode(const char *root, const char *data, size_t size, diel_item *item); /* copies what it needs */

typedef struct {
    char root[PATH_MAX], stem[300], name[360]; /* name: of the present file, below root */
    int file, number;
    off_t end, room;
    bool forced, fast;
} item_files;

void diel_i_files_begin(item_files *files, const char *root, const char *folder);
int diel_i_files_append(item_files *files, const encoded *item, text *placeholder);
void diel_i_files_end(item_files *files);

/* --- wire.c: one socket, and the one thread that touches it --------------------------------------------------- */

typedef struct wire wire;
/* An answer has come: called in the wire's thread, which holds the lock. */
typedef void answered(void *of, json header, const char *block, size_t size);

typedef struct request {
    int64_t id;
    text header, block;
    bool dropped;
    answered *done;
    void *of;
    struct request *next;
} request;

/* What sends when it is due: called as `answered` is. Returns whether there is more to send in a millisecond. */
typedef struct pump {
    bool (*send)(void *of, double now);
    void *of;
    bool due;
    struct pump *next;
} pump;

struct wire {
    char root[PATH_MAX];
    pthread_mutex_t lock; /* of all that follows, and of the ends */
    pthread_cond_t changed;
    request *first, *last, *unsent; /* unanswered, in order; those from `unsent` on are to be sent */
    pump *pumps;
    int64_t ids;
    double lost_since, look_at, look_wait; /* lost_since < 0: a broker is there */
    char *contact, where[200];             /* broker.json as it was read, and what it says, for messages */
    char broken[320];
    bool woken;
    int wake[2];
    pid_t pid;
    void *context, *socket, *monitor;
    pthread_t thread;
};

wire *diel_i_wire(void); /* of this process and its run, made on first use; NULL with diel_error */
double diel_i_now(void);
/* With the lock held: a request begins with {"op":…; `header` and `block` are taken over. Returns its number. */
int64_t diel_i_ask(wire *to, text *header, text *block, answered *done, void *of);
void diel_i_drop(wire *from, int64_t id);
void diel_i_orphan(wire *from, const void *of); /* nobody waits for these answers any longer */
void diel_i_due(wire *on, pump *one);
int diel_i_wait(wire *on, double give_up); /* DIEL_OK: look again; DIEL_TIMEOUT; DIEL_LOST */
/* Without the lock: asks and waits for the answer, which is freed with diel_i_forget. */
int diel_i_call(wire *to, text *header, text *block, double timeout, text *answer, text *answer_block);

#endif
