/* The ends of streams and the tuple space, as in diel/streams/ends.py and client.py. */
#include "inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LINGER = 0.001; /* seconds to gather items while others are under way; the first never waits */
static const double SPAN = 0.02;    /* seconds of work to fetch at once */

/* Items that came together. */
typedef struct chunk {
    char *bytes;
    size_t *sizes, count, next, offset;
    struct chunk *later;
} chunk;

struct diel_stream {
    wire *wire;
    char *who; /* "channel":…,"member":…,"attempt":… as a request has it */
    char *name;
    bool puts, closed;
    int error; /* what every call returns from now on, with its words */
    char *words;
    int64_t next; /* the number of the item that is put next, or got */
    /* for putting */
    int64_t count, known, sent, limit;
    text pending, sizes;
    int64_t pending_count, under_way;
    double sent_at;
    bool wanted, want_asked;
    pump pump;
    item_files files;
    text names; /* of files since the last request, as a JSON list without its end */
    size_t in_files;
    /* for getting */
    chunk *chunks, *last;
    int64_t asked_from, asking, share, used, most, held;
    double since;
    bool ended;
};

struct diel_space {
    wire *wire;
    char *who;
    int64_t number;
    item_files files;
};

/* --- what the task knows of itself ------------------------------------------------------------------------------ */

static const char *const RANK[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_PROCID"};
static const char *const RANKS[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PALS_SIZE", "SLURM_NTASKS"};
#define COUNT(names) (sizeof(names) / sizeof *(names))

/* The number that a launcher left; -1 if it left none. */
static long launched(const char *const *names, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const char *value = getenv(names[n]);
        if (value && *value && strspn(value, "0123456789") == strlen(value))
            return strtol(value, NULL, 10);
    }
    return -1;
}

/* ,"WORD":"TASK.RANK","attempt":N */
static int add_who(text *to, const char *word, json member, int64_t attempt, int rank, bool several)
{
    if (rank < 0 && several) {
        rank = (int)launched(RANK, COUNT(RANK));
        if (rank < 0)
            return diel_i_fail(DIEL_USAGE, "the task has several ranks, and no launcher tells this one's number");
    }
    diel_i_addf(to, "\"%s\":%.*s", word, (int)(member.to - member.from - 1), member.from);
    if (rank >= 0)
        diel_i_addf(to, ".%d", rank);
    diel_i_addf(to, "\",\"attempt\":%lld", (long long)attempt);
    return to->failed ? diel_i_fail(DIEL_SYSTEM, "no memory for a stream") : DIEL_OK;
}

/* Fills in what is known of a stream of this task. */
static int find_end(diel_stream *stream, int rank)
{
    const char *given = getenv("DIEL_STREAMS");
    if (!given)
        return diel_i_fail(DIEL_USAGE, "streams work inside the command of a task: DIEL_STREAMS is not set here");
    json end = diel_i_member(diel_i_json(given, given + strlen(given)), stream->name);
    json role = diel_i_member(end, "role"), channel = diel_i_member(end, "channel");
    json group = diel_i_member(end, "group"), member = diel_i_member(end, "member");
    int64_t attempt = 0, ranks = 1;
    if (!end.from)
        return diel_i_fail(DIEL_USAGE, "this task has no stream '%s'; it has %.400s", stream->name, given);
    if (!role.from || !channel.from || !member.from || !diel_i_int(diel_i_member(end, "attempt"), &attempt))
        return diel_i_fail(DIEL_USAGE, "DIEL_STREAMS holds no streams: %.400s", given);
    diel_i_int(diel_i_member(end, "ranks"), &ranks);
    stream->puts = role.from[1] == 'p';
    text who = {0};
    diel_i_addf(&who, "\"channel\":%.*s,", (int)(channel.to - channel.from), channel.from);
    if (!stream->puts && group.from)
        diel_i_addf(&who, "\"group\":%.*s,", (int)(group.to - group.from), group.from);
    int code = add_who(&who, "member", member, attempt, rank, ranks > 1);
    stream->who = who.data;
    return code;
}

/* A request and its answer. */
static int ask_and_wait(wire *to, text *answer, const char *op, const char *who, const char *rest)
{
    text header = {0};
    diel_i_addf(&header, "{\"op\":\"%s\",%s%s}", op, who, rest);
    return diel_i_call(to, &header, NULL, DIEL_FOREVER, answer, NULL);
}

static int ask_with_number(diel_stream *stream, const char *op, const char *word, int64_t number)
{
    char rest[64];
    snprintf(rest, sizeof rest, ",\"%s\":%lld", word, (long long)number);
    return ask_and_wait(stream->wire, NULL, op, stream->who, rest);
}

/* --- an end ------------------------------------------------------------------------------------------------------ */

static bool send_pending(void *of, double now);

static int fail_as_before(diel_stream *stream) 
{
    return diel_i_fail(stream->error, "%s", stream->words ? stream->words : "refused");
}

/* Keeps what is wrong with the stream for every later call. */
static void keep_error(diel_stream *stream, int code, json words)
{
    char *plain = diel_i_plain(words);
    text all = {0};
    if (code == DIEL_BROKEN)
        diel_i_addf(&all, "the stream %s is broken: ", stream->name);
    diel_i_addf(&all, "%s", plain ? plain : "refused");
    if (code == DIEL_BROKEN)
        diel_i_addf(&all, "; it lacks items, and this task can have no result: `diel resume` runs both again");
    free(plain);
    free(stream->words);
    stream->error = code, stream->words = all.data;
}

static int begin_puts(diel_stream *stream, json answer)
{
    char *folder = diel_i_plain(diel_i_member(answer, "folder"));
    bool good = folder && diel_i_int(diel_i_member(answer, "count"), &stream->count) &&
                diel_i_int(diel_i_member(answer, "limit"), &stream->limit) &&
                diel_i_int(diel_i_member(answer, "at"), &stream->next);
    diel_i_files_begin(&stream->files, stream->wire->root, folder ? folder : "");
    free(folder);
    stream->known = stream->sent = stream->count;
    stream->pump.send = send_pending, stream->pump.of = stream;
    pthread_mutex_lock(&stream->wire->lock);
    stream->pump.next = stream->wire->pumps, stream->wire->pumps = &stream->pump;
    pthread_mutex_unlock(&stream->wire->lock);
    return good ? DIEL_OK : DIEL_REFUSED;
}

static int begin_gets(diel_stream *stream, json answer)
{
    stream->most = 4096, stream->share = 1, stream->since = diel_i_now();
    bool good = diel_i_int(diel_i_member(answer, "at"), &stream->next) &&
                diel_i_int(diel_i_member(answer, "ahead"), &stream->most);
    stream->most = stream->most < 4096 ? stream->most : 4096;
    stream->asked_from = stream->next;
    return good ? DIEL_OK : DIEL_REFUSED;
}

static void free_stream(diel_stream *stream)
{
    if (stream->wire) {
        pthread_mutex_lock(&stream->wire->lock);
        diel_i_orphan(stream->wire, stream);
        for (pump **link = &stream->wire->pumps; *link; link = &(*link)->next)
            if (*link == &stream->pump) {
                *link = stream->pump.next;
                break;
            }
        pthread_mutex_unlock(&stream->wire->lock);
        if (stream->puts)
            diel_i_files_end(&stream->files);
    }
    while (stream->chunks) {
        chunk *one = stream->chunks;
        stream->chunks = one->later;
        free(one->bytes);
        free(one->sizes);
        free(one);
    }
    diel_i_forget(&stream->pending);
    diel_i_forget(&stream->sizes);
    diel_i_forget(&stream->names);
    free(stream->who);
    free(stream->name);
    free(stream->words);
    free(stream);
}

int diel_open(diel_stream **stream, const char *name, int rank)
{
    text answer = {0}, plain = {0};
    diel_stream *one = *stream = calloc(1, sizeof *one);
    diel_i_add(&plain, name, strlen(name));
    if (!one || plain.failed) {
        free(one);
        return diel_i_fail(DIEL_SYSTEM, "no memory for a stream");
    }
    one->name = plain.data;
    one->files.file = -1;
    int code = find_end(one, rank);
    one->wire = code ? NULL : diel_i_wire();
    if (!code && !one->wire)
        code = getenv("DIEL_RUN_DIR") ? DIEL_SYSTEM : DIEL_USAGE;
    if (!code)
        code = one->puts ? ask_and_wait(one->wire, &answer, "produce", one->who, "")
                         : ask_and_wait(one->wire, &answer, "consume", one->who, ",\"replay\":true,\"leaves\":true");
    if (!code) {
        json said = diel_i_json(answer.data, answer.data + answer.size);
        code = one->puts ? begin_puts(one, said) : begin_gets(one, said);
        if (code)
            diel_i_fail(code, "%s: the broker answered %.300s", name, answer.data);
    }
    diel_i_forget(&answer);
    if (code) {
        *stream = NULL;
        free_stream(one);
    }
    return code;
}

int64_t diel_number(const diel_stream *stream) { return stream->next; }

static int check_role(const diel_stream *stream, bool puts)
{
    if (stream->puts == puts)
        return DIEL_OK;
    return diel_i_fail(DIEL_USAGE, "stream '%s' is an %s of this task", stream->name, puts ? "input" : "output");
}

/* --- putting ----------------------------------------------------------------------------------------------------- */

static void granted(void *of, json answer, const char *block, size_t size)
{
    diel_stream *stream = of;
    (void)block, (void)size;
    json error = diel_i_member(answer, "error");
    stream->wanted = false;
    if (error.from)
        keep_error(stream, DIEL_REFUSED, error);
    else
        diel_i_int(diel_i_member(answer, "limit"), &stream->limit);
}

static void acknowledged(void *of, json answer, const char *block, size_t size)
{
    diel_stream *stream = of;
    int64_t count = 0;
    bool wanted = stream->wanted;
    stream->under_way--;
    if (diel_i_int(diel_i_member(answer, "count"), &count) && count > stream->known)
        stream->known = count;
    granted(of, answer, block, size);
    stream->wanted = wanted;
    if (stream->pending_count)
        diel_i_due(stream->wire, &stream->pump);
}

/* Sends what was gathered, which is one message. */
static void send_batch(diel_stream *stream, double now)
{
    text header = {0};
    diel_i_addf(&header, "{\"op\":\"put\",%s,\"first\":%lld,\"sizes\":[", stream->who, (long long)stream->sent);
    diel_i_add(&header, stream->sizes.data, stream->sizes.size - 1); /* without the last comma */
    diel_i_add(&header, "]", 1);
    if (stream->names.size)
        diel_i_addf(&header, ",\"files\":[%s],\"held\":%zu", stream->names.data, stream->in_files);
    diel_i_add(&header, "}", 1);
    stream->sent += stream->pending_count;
    stream->pending_count = 0, stream->sent_at = now, stream->in_files = 0;
    diel_i_forget(&stream->names);
    stream->sizes.size = 0;
    stream->under_way++;
    diel_i_ask(stream->wire, &header, &stream->pending, acknowledged, stream);
    pthread_cond_broadcast(&stream->wire->changed); /* there is room again */
}

/* At once if nothing is under way, else after the linger or a full batch. */
static bool send_pending(void *of, double now)
{
    diel_stream *stream = of;
    if (stream->pending_count && stream->under_way < DIEL_UNDER_WAY) {
        bool full = stream->pending_count >= DIEL_BATCH_ITEMS || stream->pending.size >= DIEL_BATCH_BYTES;
        if (stream->under_way && !full && now - stream->sent_at < LINGER)
            return true;
        send_batch(stream, now);
    }
    if (stream->wanted && !stream->want_asked && !stream->pending_count) {
        text header = {0};
        stream->want_asked = true;
        diel_i_addf(&header, "{\"op\":\"want\",%s,\"above\":%lld}", stream->who, (long long)stream->next);
        diel_i_ask(stream->wire, &header, NULL, granted, stream);
    }
    return false;
}

/* With the lock: whether no item can be put now. */
static bool no_room(const diel_stream *stream)
{
    return stream->next >= stream->limit || stream->pending.size > DIEL_AHEAD_BYTES ||
           stream->pending_count >= DIEL_BATCH_ITEMS;
}

static int wait_for_room(diel_stream *stream, double timeout)
{
    double give_up = timeout < 0 ? -1 : diel_i_now() + timeout;
    int code = DIEL_OK;
    while (!code && no_room(stream) && !stream->error) {
        if (stream->next >= stream->limit && !stream->wanted) { /* asked once all that was put is sent */
            stream->wanted = true, stream->want_asked = false;
            diel_i_due(stream->wire, &stream->pump);
        }
        code = diel_i_wait(stream->wire, give_up);
    }
    if (stream->error)
        return fail_as_before(stream);
    if (code == DIEL_TIMEOUT)
        return diel_i_fail(code, "%s: no room for an item in %g s", stream->name, timeout);
    return code;
}

static void gather(diel_stream *stream, const struct iovec *parts, int count, size_t size)
{
    for (int n = 0; n < count; n++)
        diel_i_add(&stream->pending, parts[n].iov_base, parts[n].iov_len);
    diel_i_addf(&stream->sizes, "%zu,", size);
    stream->pending_count++, stream->next++;
    if (!stream->pump.due)
        diel_i_due(stream->wire, &stream->pump);
}

/* A large item goes into a file; the lock is not held meanwhile. */
static int put_large(diel_stream *stream, const encoded *item)
{
    text placeholder = {0};
    pthread_mutex_unlock(&stream->wire->lock);
    int code = diel_i_files_append(&stream->files, item, &placeholder);
    pthread_mutex_lock(&stream->wire->lock);
    if (!code) {
        struct iovec whole = {placeholder.data, placeholder.size};
        if (!stream->names.size || !strstr(stream->names.data, stream->files.name))
            diel_i_addf(&stream->names, "%s\"%s\"", stream->names.size ? "," : "", stream->files.name);
        stream->in_files += item->size;
        gather(stream, &whole, 1, placeholder.size);
    }
    diel_i_forget(&placeholder);
    return code;
}

int diel_put(diel_stream *stream, const diel_item *item, double timeout)
{
    encoded found;
    int code = check_role(stream, true);
    if (code)
        return code;
    if (stream->next < stream->count) { /* an earlier attempt put it */
        stream->next++;
        return DIEL_OK;
    }
    code = diel_i_encode(item, &found);
    if (!code) {
        pthread_mutex_lock(&stream->wire->lock);
        code = stream->error || no_room(stream) ? wait_for_room(stream, timeout) : DIEL_OK;
        if (!code && found.size >= DIEL_LARGE)
            code = put_large(stream, &found);
        else if (!code)
            gather(stream, found.parts, found.count, found.size);
        pthread_mutex_unlock(&stream->wire->lock);
    }
    diel_i_encoded_free(&found);
    return code;
}

int diel_put_json(diel_stream *stream, const char *text_of, double timeout)
{
    diel_item item = {text_of, NULL, 0, 0, NULL, NULL, NULL};
    return diel_put(stream, &item, timeout);
}

int diel_put_bytes(diel_stream *stream, const void *bytes, size_t size, double timeout)
{
    diel_item item = {NULL, bytes, size, 0, NULL, NULL, NULL};
    return diel_put(stream, &item, timeout);
}

int diel_put_array(diel_stream *stream, const char *dtype, int ndim, const int64_t *shape, const void *data,
                   double timeout)
{
    diel_array array = {NULL, dtype, ndim, shape, data};
    diel_item item = {NULL, NULL, 0, 1, &array, NULL, NULL};
    return diel_put(stream, &item, timeout);
}

int diel_flush(diel_stream *stream, double timeout)
{
    int code = check_role(stream, true);
    double give_up = timeout < 0 ? -1 : diel_i_now() + timeout;
    pthread_mutex_lock(&stream->wire->lock);
    int64_t wanted = stream->next > stream->count ? stream->next : stream->count;
    while (!code && stream->known < wanted)
        code = stream->error ? fail_as_before(stream) : diel_i_wait(stream->wire, give_up);
    if (code == DIEL_TIMEOUT)
        diel_i_fail(code, "%s: %lld items not yet out in %g s", stream->name, (long long)(wanted - stream->known),
                    timeout);
    pthread_mutex_unlock(&stream->wire->lock);
    return code;
}

int64_t diel_resume(diel_stream *stream)
{
    if (stream->next < stream->count)
        stream->next = stream->count;
    return stream->count;
}

/* --- getting ------------------------------------------------------------------------------------------------------ */

static void add_chunk(diel_stream *stream, json sizes, const char *block, size_t size)
{
    json one = {NULL, NULL};
    size_t count = 0, total = 0;
    int64_t bytes = 0;
    chunk *next = calloc(1, sizeof *next);
    while (diel_i_next(sizes, &one, NULL))
        count++;
    if (next) {
        next->bytes = malloc(size + 1);
        next->sizes = malloc((count + 1) * sizeof *next->sizes);
    }
    if (!next || !next->bytes || !next->sizes) {
        static const char none[] = "\"no memory for items\"";
        keep_error(stream, DIEL_SYSTEM, (json){none, none + sizeof none - 1});
        return;
    }
    memcpy(next->bytes, block, size);
    for (one.from = NULL; diel_i_next(sizes, &one, NULL) && diel_i_int(one, &bytes) && total <= size;)
        next->sizes[next->count++] = (size_t)bytes, total += (size_t)bytes;
    *(stream->chunks ? &stream->last->later : &stream->chunks) = next;
    stream->last = next;
    stream->asked_from += (int64_t)count, stream->held += (int64_t)count;
}

static void arrived(void *of, json answer, const char *block, size_t size)
{
    diel_stream *stream = of;
    json error = diel_i_member(answer, "error"), broken = diel_i_member(answer, "broken");
    stream->asking = 0;
    if (error.from)
        keep_error(stream, DIEL_REFUSED, error);
    else if (broken.from)
        keep_error(stream, DIEL_BROKEN, broken);
    else if (diel_i_true(diel_i_member(answer, "end")))
        stream->ended = true;
    else
        add_chunk(stream, diel_i_member(answer, "sizes"), block, size);
}

static void forgotten(void *of, json answer, const char *block, size_t size)
{
    diel_stream *stream = of;
    (void)block, (void)size;
    if (diel_i_true(diel_i_member(answer, "forgotten")) && stream->asking) {
        diel_i_drop(stream->wire, stream->asking);
        stream->asking = 0;
    }
}

/* Asks for as many items as were used in the last 20 ms. */
static void ask_for_items(diel_stream *stream)
{
    text header = {0};
    if (stream->used) {
        double spent = diel_i_now() - stream->since;
        double share = SPAN * (double)stream->used / (spent > 1e-6 ? spent : 1e-6);
        stream->share = share < 1 ? 1 : share > (double)stream->most ? stream->most : (int64_t)share;
    }
    diel_i_addf(&header, "{\"op\":\"get\",%s,\"from\":%lld,\"most\":%lld}", stream->who,
                (long long)stream->asked_from, (long long)stream->share);
    stream->asking = diel_i_ask(stream->wire, &header, NULL, arrived, stream);
}

static int wait_for_items(diel_stream *stream, double timeout)
{
    double give_up = timeout < 0 ? -1 : diel_i_now() + timeout;
    int code = DIEL_OK;
    while (!code && !stream->held) {
        if (stream->error)
            return fail_as_before(stream);
        if (stream->ended)
            return diel_i_fail(DIEL_END, "%s: closed, and all its items were read", stream->name);
        if (!stream->asking)
            ask_for_items(stream);
        code = diel_i_wait(stream->wire, give_up);
    }
    if (code == DIEL_TIMEOUT && stream->held)
        code = DIEL_OK;
    if (code == DIEL_TIMEOUT) {
        if (stream->asking) { /* others of the group get what comes next */
            text header = {0};
            diel_i_addf(&header, "{\"op\":\"forget\",\"of\":%lld}", (long long)stream->asking);
            diel_i_ask(stream->wire, &header, NULL, forgotten, stream);
        }
        return diel_i_fail(code, "%s: no item in %g s", stream->name, timeout);
    }
    stream->since = diel_i_now(), stream->used = 0;
    return code;
}

int diel_get(diel_stream *stream, diel_item *item, double timeout)
{
    memset(item, 0, sizeof *item);
    int code = check_role(stream, false);
    if (code)
        return code;
    pthread_mutex_lock(&stream->wire->lock);
    if (!stream->held)
        code = wait_for_items(stream, timeout);
    chunk *from = stream->chunks, *spent = NULL;
    size_t size = 0, offset = 0;
    if (!code) {
        size = from->sizes[from->next++], offset = from->offset;
        from->offset += size;
        stream->held--, stream->next++, stream->used++;
        if (from->next == from->count) {
            spent = from;
            stream->chunks = from->later;
        }
        if (stream->share > 1 && 2 * stream->held <= stream->share && !stream->asking && !stream->ended &&
            !stream->error)
            ask_for_items(stream);
    }
    pthread_mutex_unlock(&stream->wire->lock);
    if (!code)
        code = diel_i_decode(stream->wire->root, from->bytes + offset, size, item);
    if (spent) {
        free(spent->bytes);
        free(spent->sizes);
        free(spent);
    }
    return code;
}

int diel_commit(diel_stream *stream)
{
    int code = check_role(stream, false);
    return code ? code : ask_with_number(stream, "commit", "at", stream->next);
}

/* --- leaving ------------------------------------------------------------------------------------------------------ */

static int leave_puts(diel_stream *stream, bool failed)
{
    int code = diel_flush(stream, DIEL_FOREVER);
    code = code ? code : ask_with_number(stream, "place", "at", stream->next);
    const char *rest = failed ? ",\"failed\":true" : ",\"failed\":false";
    return code ? code : ask_and_wait(stream->wire, NULL, "part", stream->who, rest);
}

static int leave_gets(diel_stream *stream)
{
    pthread_mutex_lock(&stream->wire->lock);
    int64_t asking = stream->asking;
    pthread_mutex_unlock(&stream->wire->lock);
    char rest[64];
    snprintf(rest, sizeof rest, "\"of\":%lld", (long long)asking);
    int code = asking > 0 ? ask_and_wait(stream->wire, NULL, "forget", rest, "") : DIEL_OK;
    code = code ? code : ask_with_number(stream, "seat", "at", stream->next);
    return code == DIEL_REFUSED ? DIEL_OK : code; /* another attempt took over, and got it again */
}

static int leave(diel_stream *stream, bool failed)
{
    int code = stream->puts ? leave_puts(stream, failed) : leave_gets(stream);
    free_stream(stream);
    return code;
}

int diel_close(diel_stream *stream) { return leave(stream, false); }

int diel_give_up(diel_stream *stream) { return leave(stream, true); }

/* --- the tuple space ---------------------------------------------------------------------------------------------- */

int diel_space_open(diel_space **space, int rank)
{
    const char *task = getenv("DIEL_TASK_ID"), *attempt = getenv("DIEL_ATTEMPT"), *ranked = getenv("DIEL_RANKED");
    text quoted = {0}, who = {0}, answer = {0};
    *space = NULL;
    wire *found = diel_i_wire();
    if (!found)
        return DIEL_USAGE;
    if (!task || !*task || !attempt)
        return diel_i_fail(DIEL_USAGE, "the tuple space works inside the command of a task: DIEL_TASK_ID and "
                                       "DIEL_ATTEMPT are not set here");
    diel_i_add_quoted(&quoted, task);
    bool several = ranked && *ranked && launched(RANKS, COUNT(RANKS)) > 1;
    json owner = {quoted.data, quoted.data + quoted.size};
    int code = add_who(&who, "owner", owner, strtoll(attempt, NULL, 10), rank, several);
    diel_i_forget(&quoted);
    diel_space *one = code ? NULL : calloc(1, sizeof *one);
    code = code ? code : ask_and_wait(found, &answer, "space", who.data, "");
    if (!code && one && diel_i_int(diel_i_member(diel_i_json(answer.data, answer.data + answer.size), "at"),
                                   &one->number)) {
        one->wire = found, one->who = who.data;
        diel_i_files_begin(&one->files, found->root, "space");
        *space = one;
    } else {
        code = code ? code : diel_i_fail(DIEL_REFUSED, "the tuple space cannot be had: %s", answer.data);
        diel_i_forget(&who);
        free(one);
    }
    diel_i_forget(&answer);
    return code;
}

static int operate(diel_space *space, const char *what, const char *key, text *value, double timeout, text *answer,
                   text *block)
{
    json parts = diel_i_json(key, key + strlen(key));
    if (!parts.from || *parts.from != '[')
        return diel_i_fail(DIEL_USAGE, "a key of the tuple space should be a JSON list; found %.200s", key);
    text header = {0};
    diel_i_addf(&header, "{\"op\":\"tuple\",\"do\":\"%s\",%s,\"key\":%s,\"keep\":true,\"number\":%lld}", what,
                space->who, key, (long long)space->number);
    int code = diel_i_call(space->wire, &header, value, timeout, answer, block);
    if (!code)
        space->number++;
    else if (code == DIEL_TIMEOUT)
        diel_i_fail(code, "no tuple fits %.200s in %g s", key, timeout);
    return code;
}

int diel_space_put(diel_space *space, const char *key, const diel_item *value)
{
    encoded found;
    text bytes = {0};
    int code = diel_i_encode(value, &found);
    if (!code && found.size >= DIEL_LARGE)
        code = diel_i_files_append(&space->files, &found, &bytes);
    for (int n = 0; !code && found.size < DIEL_LARGE && n < found.count; n++)
        diel_i_add(&bytes, found.parts[n].iov_base, found.parts[n].iov_len);
    diel_i_encoded_free(&found);
    code = code ? code : operate(space, "put", key, &bytes, DIEL_FOREVER, NULL, NULL);
    diel_i_forget(&bytes);
    return code;
}

static int find_tuple(diel_space *space, const char *what, const char *pattern, diel_item *found, double timeout)
{
    text answer = {0}, block = {0}, key = {0};
    memset(found, 0, sizeof *found);
    int code = operate(space, what, pattern, NULL, timeout, &answer, &block);
    if (!code) {
        json parts = diel_i_member(diel_i_json(answer.data, answer.data + answer.size), "key");
        code = diel_i_decode(space->wire->root, block.data ? block.data : "", block.size, found);
        if (!code && parts.from)
            diel_i_add(&key, parts.from, (size_t)(parts.to - parts.from));
        found->key = key.data;
    }
    diel_i_forget(&answer);
    diel_i_forget(&block);
    return code;
}

int diel_space_read(diel_space *space, const char *pattern, diel_item *found, double timeout)
{
    return find_tuple(space, "read", pattern, found, timeout);
}

int diel_space_take(diel_space *space, const char *pattern, diel_item *found, double timeout)
{
    return find_tuple(space, "take", pattern, found, timeout);
}

int diel_space_commit(diel_space *space)
{
    char rest[48];
    snprintf(rest, sizeof rest, ",\"number\":%lld", (long long)space->number);
    return ask_and_wait(space->wire, NULL, "space_commit", space->who, rest);
}

void diel_space_close(diel_space *space)
{
    diel_i_files_end(&space->files);
    free(space->who);
    free(space);
}
