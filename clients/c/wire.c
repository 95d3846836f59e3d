/* The wire of one process to its broker: one socket, and the one thread that touches it, as in
   diel/streams/wire.py. When the broker goes, the wire looks into broker.json for the next one and asks again all
   that was not answered, in order: every request can be asked twice. */
#include "inner.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* --- ZeroMQ: what is used of its stable binary interface, so that only the library is needed, no header --------- */

typedef struct {
    unsigned char space[64] __attribute__((aligned(sizeof(void *))));
} zmq_msg_t;
typedef struct {
    void *socket;
    int fd;
    short events, revents;
} zmq_pollitem_t;
void *zmq_ctx_new(void);
int zmq_ctx_set(void *context, int option, int value);
void *zmq_socket(void *context, int kind);
int zmq_close(void *socket);
int zmq_setsockopt(void *socket, int option, const void *value, size_t size);
int zmq_connect(void *socket, const char *address);
int zmq_socket_monitor(void *socket, const char *address, int events);
int zmq_send(void *socket, const void *bytes, size_t size, int flags);
int zmq_poll(zmq_pollitem_t *items, int count, long timeout);
int zmq_msg_init(zmq_msg_t *message);
int zmq_msg_recv(zmq_msg_t *message, void *socket, int flags);
int zmq_msg_close(zmq_msg_t *message);
int zmq_msg_more(const zmq_msg_t *message);
void *zmq_msg_data(zmq_msg_t *message);
size_t zmq_msg_size(const zmq_msg_t *message);
enum {
    ZMQ_PAIR = 0,
    ZMQ_DEALER = 5,
    ZMQ_LINGER = 17,
    ZMQ_SNDHWM = 23,
    ZMQ_RCVHWM = 24,
    ZMQ_CURVE_PUBLICKEY = 48,
    ZMQ_CURVE_SECRETKEY = 49,
    ZMQ_CURVE_SERVERKEY = 50,
    ZMQ_BLOCKY = 70,
    ZMQ_HEARTBEAT_IVL = 75,
    ZMQ_HEARTBEAT_TIMEOUT = 77,
    ZMQ_DONTWAIT = 1,
    ZMQ_SNDMORE = 2,
    ZMQ_POLLIN = 1,
    THERE = 0x1000,                        /* the handshake succeeded */
    GONE = 0x200 | 0x800 | 0x2000 | 0x4000 /* disconnected; the handshake failed in one of three ways */
};

static const double PATIENCE = 600; /* seconds that a call waits for a broker that does not answer */
static const double LOOK = 0.05, LOOK_MOST = 1.0, TURN = 0.5;

double diel_i_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- asking ----------------------------------------------------------------------------------------------------- */

static void wake(wire *one)
{
    if (!one->woken) {
        one->woken = true;
        if (write(one->wake[1], "w", 1) < 0)
            one->woken = errno == EAGAIN; /* it is full, and thus awake */
    }
}

int64_t diel_i_ask(wire *to, text *header, text *block, answered *done, void *of)
{
    static text none;
    request *one = calloc(1, sizeof *one);
    bool failed = !one || header->failed || (block && block->failed);
    if (failed)
        snprintf(to->broken, sizeof to->broken, "no memory for a request");
    if (failed) {
        free(one);
        diel_i_forget(header);
        if (block)
            diel_i_forget(block);
        return -1;
    }
    one->id = ++to->ids;
    diel_i_addf(&one->header, "{\"id\":%lld,", (long long)one->id);
    diel_i_add(&one->header, header->data + 1, header->size - 1);
    diel_i_forget(header);
    if (block)
        one->block = *block, *block = none;
    one->done = done, one->of = of;
    if (to->last)
        to->last->next = one;
    else
        to->first = one;
    to->last = one;
    if (!to->unsent)
        to->unsent = one;
    wake(to);
    return one->id;
}

/* Takes a request out of the line and frees it. */
static void remove_request(wire *from, request *one)
{
    request **link = &from->first, *before = NULL;
    while (*link != one)
        before = *link, link = &(*link)->next;
    *link = one->next;
    if (from->last == one)
        from->last = before;
    if (from->unsent == one)
        from->unsent = one->next;
    diel_i_forget(&one->header);
    diel_i_forget(&one->block);
    free(one);
}

void diel_i_drop(wire *from, int64_t id)
{
    for (request *one = from->first; one; one = one->next)
        one->dropped = one->dropped || one->id == id; /* freed by the thread that may just be sending it */
    wake(from);
}

void diel_i_orphan(wire *from, const void *of)
{
    for (request *one = from->first; one; one = one->next)
        if (one->of == of)
            one->dropped = true, one->done = NULL; /* its answer, should one come, finds nobody */
    wake(from);
}

void diel_i_due(wire *on, pump *one)
{
    one->due = true;
    wake(on);
}

static int check(wire *one)
{
    if (*one->broken)
        return diel_i_fail(DIEL_LOST, "the connection to the streams broke: %s", one->broken);
    if (one->lost_since < 0 || diel_i_now() - one->lost_since <= PATIENCE)
        return DIEL_OK;
    return diel_i_fail(DIEL_LOST,
                       "no broker of streams answers for %.0f s: %s/broker.json %s; the run's controller starts "
                       "it: see `diel status`",
                       PATIENCE, one->root, one->contact ? one->where : "is not there");
}

int diel_i_wait(wire *on, double give_up)
{
    int code = check(on);
    double now = diel_i_now(), until = now + TURN;
    if (code)
        return code;
    if (give_up >= 0 && now >= give_up)
        return DIEL_TIMEOUT;
    if (give_up >= 0 && give_up < until)
        until = give_up;
    struct timespec at = {(time_t)until, (long)(1e9 * (until - (double)(time_t)until))};
    pthread_cond_timedwait(&on->changed, &on->lock, &at);
    return DIEL_OK;
}

typedef struct {
    text header, block;
    bool ready;
} call;

static void call_answered(void *of, json header, const char *block, size_t size)
{
    call *one = of;
    diel_i_add(&one->header, header.from, (size_t)(header.to - header.from));
    diel_i_add(&one->block, block, size);
    one->ready = true;
}

/* Withdraws a request: whether it still waited, or a code. */
static int withdraw(wire *from, int64_t id, bool *waited)
{
    text header = {0}, answer = {0};
    diel_i_addf(&header, "{\"op\":\"forget\",\"of\":%lld}", (long long)id);
    int code = diel_i_call(from, &header, NULL, DIEL_FOREVER, &answer, NULL);
    if (!code)
        *waited = diel_i_true(diel_i_member(diel_i_json(answer.data, answer.data + answer.size), "forgotten"));
    diel_i_forget(&answer);
    return code;
}

int diel_i_call(wire *to, text *header, text *block, double timeout, text *answer, text *answer_block)
{
    call one = {{0}, {0}, false};
    bool waited = false;
    double give_up = timeout < 0 ? -1 : diel_i_now() + timeout;
    pthread_mutex_lock(&to->lock);
    int64_t id = diel_i_ask(to, header, block, call_answered, &one);
    int code = id < 0 ? diel_i_fail(DIEL_SYSTEM, "no memory for a request") : DIEL_OK;
    while (!code && !one.ready) {
        code = diel_i_wait(to, give_up);
        if (code != DIEL_TIMEOUT || one.ready)
            continue;
        give_up = -1;
        pthread_mutex_unlock(&to->lock);
        code = withdraw(to, id, &waited);
        pthread_mutex_lock(&to->lock);
        code = !code && waited && !one.ready ? DIEL_TIMEOUT : code;
    }
    diel_i_orphan(to, &one);
    code = one.ready ? DIEL_OK : code;
    pthread_mutex_unlock(&to->lock);
    json said = one.ready ? diel_i_json(one.header.data, one.header.data + one.header.size) : (json){NULL, NULL};
    json error = diel_i_member(said, "error");
    if (error.from) {
        char *words = diel_i_plain(error);
        code = diel_i_fail(DIEL_REFUSED, "%s", words ? words : "refused");
        free(words);
    }
    if (!code && answer)
        *answer = one.header, memset(&one.header, 0, sizeof one.header);
    if (!code && answer_block)
        *answer_block = one.block, memset(&one.block, 0, sizeof one.block);
    diel_i_forget(&one.header);
    diel_i_forget(&one.block);
    return code;
}

/* --- the broker ------------------------------------------------------------------------------------------------- */

static char *read_contact(const wire *one)
{
    char path[PATH_MAX + 16], bytes[4096];
    text found = {0};
    ssize_t size;
    snprintf(path, sizeof path, "%s/broker.json", one->root);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    while ((size = read(file, bytes, sizeof bytes)) > 0)
        diel_i_add(&found, bytes, (size_t)size);
    close(file);
    if (found.data && diel_i_json(found.data, found.data + found.size).from)
        return found.data;
    diel_i_forget(&found);
    return NULL;
}

/* Whether a port answers within a second. */
static bool answers(const char *address, const char *port)
{
    struct addrinfo wanted = {0}, *found = NULL;
    wanted.ai_socktype = SOCK_STREAM;
    bool good = false;
    if (getaddrinfo(address, port, &wanted, &found))
        return false;
    for (struct addrinfo *one = found; one && !good; one = one->ai_next) {
        int error = -1, file = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        socklen_t size = sizeof error;
        struct pollfd ready = {file, POLLOUT, 0};
        if (file < 0)
            continue;
        connect(file, one->ai_addr, one->ai_addrlen);
        good = poll(&ready, 1, 1000) == 1 && !getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &size) && !error;
        close(file);
    }
    freeaddrinfo(found);
    return good;
}

/* tcp://ADDRESS:PORT of the broker that answers from here; its first address if none does. */
static bool address_of(json contact, char *address, size_t size)
{
    json addresses = diel_i_member(contact, "addresses"), one = {NULL, NULL};
    int64_t port;
    char digits[24], *found = NULL;
    if (!diel_i_int(diel_i_member(contact, "port"), &port))
        return false;
    snprintf(digits, sizeof digits, "%lld", (long long)port);
    for (int count = 0; diel_i_next(addresses, &one, NULL); count++) {
        char *name = diel_i_plain(one);
        json next = one;
        bool last = !count && !diel_i_next(addresses, &next, NULL); /* the only one */
        bool good = name && (last || answers(name, digits));
        if (!found || good)
            free(found), found = name;
        else
            free(name);
        if (good)
            break;
    }
    if (found)
        snprintf(address, size, "tcp://%s:%s", found, digits);
    free(found);
    return found != NULL;
}

static void hang_up(wire *one)
{
    if (one->lost_since < 0)
        one->lost_since = diel_i_now();
    one->look_at = diel_i_now() + LOOK / 2, one->look_wait = LOOK;
    if (one->socket) {
        zmq_socket_monitor(one->socket, NULL, 0);
        zmq_close(one->monitor);
        zmq_close(one->socket);
        one->socket = one->monitor = NULL;
    }
}

static void set_key(void *socket, int option, json contact, const char *name)
{
    char *key = diel_i_plain(diel_i_member(contact, name));
    if (key)
        zmq_setsockopt(socket, option, key, strlen(key));
    free(key);
}

static void call_up(wire *one, json contact, const char *address)
{
    static int calls;
    int zero = 0, beat = 10000, silence = 30000;
    char watch[64];
    one->socket = zmq_socket(one->context, ZMQ_DEALER);
    one->monitor = zmq_socket(one->context, ZMQ_PAIR);
    if (!one->socket || !one->monitor) {
        snprintf(one->broken, sizeof one->broken, "no socket can be had: %s", strerror(errno));
        return;
    }
    zmq_setsockopt(one->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(one->monitor, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(one->socket, ZMQ_SNDHWM, &zero, sizeof zero);
    zmq_setsockopt(one->socket, ZMQ_RCVHWM, &zero, sizeof zero);
    zmq_setsockopt(one->socket, ZMQ_HEARTBEAT_IVL, &beat, sizeof beat);
    zmq_setsockopt(one->socket, ZMQ_HEARTBEAT_TIMEOUT, &silence, sizeof silence);
    set_key(one->socket, ZMQ_CURVE_SERVERKEY, contact, "key");
    set_key(one->socket, ZMQ_CURVE_PUBLICKEY, contact, "client_key");
    set_key(one->socket, ZMQ_CURVE_SECRETKEY, contact, "client_secret");
    snprintf(watch, sizeof watch, "inproc://diel-%d", ++calls);
    if (zmq_socket_monitor(one->socket, watch, THERE | GONE) || zmq_connect(one->monitor, watch) ||
        zmq_connect(one->socket, address))
        snprintf(one->broken, sizeof one->broken, "%s cannot be called: %s", address, strerror(errno));
}

/* Looks for the broker, and asks it everything that is unanswered. */
static void look(wire *one)
{
    if (diel_i_now() < one->look_at)
        return;
    one->look_wait = 1.5 * one->look_wait < LOOK_MOST ? 1.5 * one->look_wait : LOOK_MOST;
    one->look_at = diel_i_now() + one->look_wait;
    char *found = read_contact(one);
    bool same = found && one->contact && !strcmp(found, one->contact);
    if (!found || (one->socket && same)) {
        free(found);
        return;
    }
    if (one->socket)
        hang_up(one);
    free(one->contact);
    one->contact = found;
    json contact = diel_i_json(found, found + strlen(found));
    char address[160];
    pthread_mutex_unlock(&one->lock); /* trying addresses takes a while; only this thread writes `contact` */
    bool known = address_of(contact, address, sizeof address);
    pthread_mutex_lock(&one->lock);
    if (!known)
        return;
    snprintf(one->where, sizeof one->where, "speaks of %s", address);
    call_up(one, contact, address);
    one->unsent = one->first;
}

/* Handles what the socket says about its connection. */
static void heed(wire *one)
{
    zmq_msg_t message;
    while (one->monitor) {
        zmq_msg_init(&message);
        int size = zmq_msg_recv(&message, one->monitor, ZMQ_DONTWAIT);
        uint16_t event = 0;
        if (size >= (int)sizeof event)
            memcpy(&event, zmq_msg_data(&message), sizeof event);
        while (size >= 0 && zmq_msg_more(&message))
            size = zmq_msg_recv(&message, one->monitor, ZMQ_DONTWAIT);
        zmq_msg_close(&message);
        if (size < 0)
            return;
        if (event & THERE)
            one->lost_since = -1;
        else if (event & GONE)
            hang_up(one);
    }
}

/* --- the thread: it holds the lock wherever it neither waits nor sends ------------------------------------------ */

static void send_asked(wire *one)
{
    for (request *next = one->first, *after; next; next = after) {
        after = next->next;
        if (next->dropped)
            remove_request(one, next);
    }
    while (one->socket && one->unsent) {
        request *next = one->unsent;
        void *socket = one->socket;
        pthread_mutex_unlock(&one->lock); /* only this thread removes requests */
        zmq_send(socket, next->header.data, next->header.size, next->block.size ? ZMQ_SNDMORE : 0);
        if (next->block.size)
            zmq_send(socket, next->block.data, next->block.size, 0);
        pthread_mutex_lock(&one->lock);
        one->unsent = next->next;
    }
}

static bool send_pumps(wire *one)
{
    double now = diel_i_now();
    bool more = false;
    for (pump *next = one->pumps; next; next = next->next) {
        if (next->due) {
            next->due = next->send(next->of, now);
            more = more || next->due;
        }
    }
    return more;
}

static void hand_out(wire *one, zmq_msg_t *head, zmq_msg_t *block)
{
    const char *bytes = zmq_msg_data(head);
    json header = diel_i_json(bytes, bytes + zmq_msg_size(head));
    int64_t id = 0;
    if (!diel_i_int(diel_i_member(header, "id"), &id))
        return;
    request *next = one->first;
    while (next && next->id != id)
        next = next->next;
    if (!next)
        return;
    if (next->done)
        next->done(next->of, header, zmq_msg_data(block), zmq_msg_size(block));
    remove_request(one, next);
    pthread_cond_broadcast(&one->changed);
}

static void receive(wire *one)
{
    zmq_msg_t head, block, rest;
    for (int n = 0; n < 100 && one->socket; n++) {
        zmq_msg_init(&head);
        zmq_msg_init(&block);
        zmq_msg_init(&rest);
        bool good = zmq_msg_recv(&head, one->socket, ZMQ_DONTWAIT) >= 0;
        bool more = good && zmq_msg_more(&head);
        if (more && zmq_msg_recv(&block, one->socket, 0) >= 0)
            for (more = zmq_msg_more(&block); more; more = zmq_msg_more(&rest))
                zmq_msg_recv(&rest, one->socket, 0);
        if (good)
            hand_out(one, &head, &block);
        zmq_msg_close(&head);
        zmq_msg_close(&block);
        zmq_msg_close(&rest);
        if (!good)
            return;
    }
}

static void take_turn(wire *one)
{
    char bytes[64];
    if (one->lost_since >= 0)
        look(one);
    bool more = send_pumps(one);
    send_asked(one);
    zmq_pollitem_t items[] = {
        {NULL, one->wake[0], ZMQ_POLLIN, 0}, {one->monitor, 0, ZMQ_POLLIN, 0}, {one->socket, 0, ZMQ_POLLIN, 0}};
    long timeout = more ? 1 : one->lost_since >= 0 ? 50 : 1000;
    int count = one->socket ? 3 : 1;
    pthread_mutex_unlock(&one->lock);
    zmq_poll(items, count, timeout);
    pthread_mutex_lock(&one->lock);
    if (items[0].revents & ZMQ_POLLIN) {
        one->woken = false;
        while (read(one->wake[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes)
            ;
    }
    if (count == 3 && items[1].revents & ZMQ_POLLIN)
        heed(one);
    if (count == 3 && items[2].revents & ZMQ_POLLIN)
        receive(one);
}

static void *run(void *of)
{
    wire *one = of;
    pthread_mutex_lock(&one->lock);
    while (!*one->broken)
        take_turn(one);
    pthread_cond_broadcast(&one->changed);
    pthread_mutex_unlock(&one->lock);
    return NULL;
}

static wire *begin(const char *run_dir)
{
    wire *one = calloc(1, sizeof *one);
    pthread_condattr_t monotonic;
    sigset_t all, before;
    if (!one || pipe2(one->wake, O_NONBLOCK | O_CLOEXEC) || !(one->context = zmq_ctx_new())) {
        free(one);
        return NULL;
    }
    zmq_ctx_set(one->context, ZMQ_BLOCKY, 0);
    snprintf(one->root, sizeof one->root, "%s/streams", run_dir);
    one->lost_since = diel_i_now(), one->look_wait = LOOK, one->pid = getpid();
    pthread_mutex_init(&one->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&one->changed, &monotonic);
    sigfillset(&all); /* the program's own threads handle its signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&one->thread, NULL, run, one);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        free(one);
    return failed ? NULL : one;
}

wire *diel_i_wire(void)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    static wire *made;
    const char *run_dir = getenv("DIEL_RUN_DIR");
    if (!run_dir || !*run_dir) {
        diel_i_fail(DIEL_USAGE, "streams work inside the command of a task: DIEL_RUN_DIR is not set here");
        return NULL;
    }
    pthread_mutex_lock(&making);
    if (!made || made->pid != getpid()) /* a forked child has none of its parent's threads */
        made = begin(run_dir);
    wire *found = made;
    pthread_mutex_unlock(&making);
    if (!found)
        diel_i_fail(DIEL_SYSTEM, "the connection to the streams cannot be made: %s", strerror(errno));
    return found;
}
