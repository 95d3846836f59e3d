/* Items as bytes, and the files of large ones: the forms are those of diel/streams/item.py. */
#include "inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { ALIGNED = 64, HEAD = 5 };
static const off_t ROLL = 64 << 20, AHEAD = 64 << 20;
static const int64_t NFS = 0x6969;
static const int64_t FAST[] = {0xEF53, 0x58465342, 0x9123683E, 0x794C7630}; /* ext4, xfs, btrfs, overlay */

/* --- to bytes --------------------------------------------------------------------------------------------------- */

/* The bytes of an element of numpy's type; 0 for what is not simple, such as the fields of a record. */
static size_t size_of(const char *dtype)
{
    const char *letter = dtype + (*dtype && strchr("<>|=", *dtype) ? 1 : 0);
    if (!*letter || !strchr("biufcSUVmM", *letter))
        return 0;
    size_t number = strtoul(letter + 1, NULL, 10);
    return *letter == 'U' ? 4 * number : number;
}

static bool bytes_of(const diel_array *array, size_t *bytes)
{
    *bytes = array->dtype ? size_of(array->dtype) : 0;
    if (!*bytes || array->ndim < 0 || array->ndim > 32)
        return false;
    for (int n = 0; n < array->ndim; n++) {
        if (array->shape[n] < 0 || (array->shape[n] && *bytes > SIZE_MAX / 2 / (size_t)array->shape[n]))
            return false;
        *bytes *= (size_t)array->shape[n];
    }
    return true;
}

static void add_part(encoded *to, const void *bytes, size_t size)
{
    to->parts[to->count].iov_base = (void *)bytes;
    to->parts[to->count++].iov_len = size;
    to->size += size;
}

static size_t aligned(size_t size) { return (size + ALIGNED - 1) / ALIGNED * ALIGNED; }

/* The header of an item with arrays that begins with `room` bytes, arrays counted from there on. */
static int add_header(const diel_item *item, size_t room, text *to)
{
    diel_i_addf(to, "n____{\"value\":%s,\"arrays\":[", item->json ? item->json : "null");
    for (size_t n = 0; n < item->count; n++) {
        const diel_array *array = &item->arrays[n];
        const char *at = array->at ? array->at : "[]";
        size_t bytes;
        if (!bytes_of(array, &bytes))
            return diel_i_fail(DIEL_USAGE, "array %zu of an item: its dtype or shape is none", n);
        json place = diel_i_json(at, at + strlen(at));
        if (!place.from || *place.from != '[')
            return diel_i_fail(DIEL_USAGE, "array %zu of an item: its place should be a JSON list: %s", n, at);
        diel_i_addf(to, "%s{\"at\":%s,\"dtype\":\"%s\",\"shape\":[", n ? "," : "", at, array->dtype);
        for (int d = 0; d < array->ndim; d++)
            diel_i_addf(to, "%s%lld", d ? "," : "", (long long)array->shape[d]);
        diel_i_addf(to, "],\"offset\":%zu}", room);
        room += aligned(bytes);
    }
    diel_i_add(to, "]}", 2);
    return DIEL_OK;
}

static int encode_arrays(const diel_item *item, encoded *found)
{
    static const char zeros[ALIGNED];
    size_t room = 0, needed = ALIGNED;
    while (room < needed) {
        room = needed;
        diel_i_forget(&found->head);
        int code = add_header(item, room, &found->head);
        if (code)
            return code;
        needed = aligned(found->head.size);
    }
    size_t length = found->head.size - HEAD;
    while (found->head.size < room)
        diel_i_add(&found->head, zeros, room - found->head.size);
    if (found->head.failed)
        return diel_i_fail(DIEL_SYSTEM, "no memory for an item");
    for (int n = 0; n < 4; n++)
        found->head.data[1 + n] = (char)(length >> 8 * n & 0xFF);
    add_part(found, found->head.data, room);
    for (size_t n = 0; n < item->count; n++) {
        size_t bytes, last = n + 1 == item->count;
        bytes_of(&item->arrays[n], &bytes);
        add_part(found, item->arrays[n].data, bytes);
        if (!last)
            add_part(found, zeros, aligned(bytes) - bytes);
    }
    return DIEL_OK;
}

int diel_i_encode(const diel_item *item, encoded *found)
{
    memset(found, 0, sizeof *found);
    if (2 * item->count + 2 > DIEL_PARTS)
        return diel_i_fail(DIEL_USAGE, "an item can have %d arrays at most", DIEL_PARTS / 2 - 1);
    found->parts = malloc((2 * item->count + 2) * sizeof *found->parts);
    if (!found->parts)
        return diel_i_fail(DIEL_SYSTEM, "no memory for an item");
    if (item->json && !diel_i_json(item->json, item->json + strlen(item->json)).from)
        return diel_i_fail(DIEL_USAGE, "an item of a stream should be JSON in UTF-8; found %.200s", item->json);
    if (item->count)
        return encode_arrays(item, found);
    if (!item->json && !item->bytes && item->size)
        return diel_i_fail(DIEL_USAGE, "an item of a stream has neither JSON nor bytes nor arrays");
    add_part(found, item->json ? "j" : "b", 1);
    add_part(found, item->json ? item->json : item->bytes, item->json ? strlen(item->json) : item->size);
    return DIEL_OK;
}

void diel_i_encoded_free(encoded *one)
{
    free(one->parts);
    diel_i_forget(&one->head);
}

/* --- from bytes ------------------------------------------------------------------------------------------------- */

/* What an item that was got holds on to. */
typedef struct {
    void *map;
    size_t mapped;
    char *bytes, *head;
    diel_array *arrays;
    int64_t *shapes;
} held;

void diel_release(diel_item *item)
{
    held *of = item->held;
    if (of) {
        if (of->map)
            munmap(of->map, of->mapped);
        for (size_t n = 0; of->arrays && n < item->count; n++) {
            free((void *)of->arrays[n].at);
            free((void *)of->arrays[n].dtype);
        }
        free(of->bytes);
        free(of->head);
        free(of->arrays);
        free(of->shapes);
        free(of);
    }
    free((void *)item->key);
    memset(item, 0, sizeof *item);
}

static char *copied(json value)
{
    char *copy = malloc((size_t)(value.to - value.from) + 1);
    if (copy) {
        memcpy(copy, value.from, (size_t)(value.to - value.from));
        copy[value.to - value.from] = '\0';
    }
    return copy;
}

static bool decode_array(json entry, const char *data, size_t size, diel_array *array, int64_t *shape)
{
    json dtype = diel_i_member(entry, "dtype"), at = diel_i_member(entry, "at"), one = {NULL, NULL};
    int64_t offset;
    size_t bytes = 0;
    if (!dtype.from || !at.from || !diel_i_int(diel_i_member(entry, "offset"), &offset))
        return false;
    array->at = copied(at);
    array->dtype = *dtype.from == '"' ? diel_i_plain(dtype) : copied(dtype);
    array->shape = shape;
    while (array->ndim < 32 && diel_i_next(diel_i_member(entry, "shape"), &one, NULL))
        if (!diel_i_int(one, &shape[array->ndim++]))
            return false;
    array->data = data + offset;
    bool known = array->dtype && bytes_of(array, &bytes);
    return array->at && array->dtype && offset >= 0 && (size_t)offset <= size &&
           (!known || bytes <= size - (size_t)offset);
}

static bool decode_arrays(const char *data, size_t size, diel_item *item)
{
    held *of = item->held;
    size_t length = 0;
    for (int n = 0; n < 4 && size >= HEAD; n++)
        length |= (size_t)(unsigned char)data[1 + n] << 8 * n;
    json head = size < HEAD || length > size - HEAD ? (json){NULL, NULL}
                                                    : diel_i_json(data + HEAD, data + HEAD + length);
    json value = diel_i_member(head, "value"), arrays = diel_i_member(head, "arrays"), one = {NULL, NULL};
    if (!value.from || !arrays.from)
        return false;
    size_t count = 0;
    while (diel_i_next(arrays, &one, NULL))
        count++;
    item->json = of->head = copied(value);
    of->arrays = calloc(count + 1, sizeof *of->arrays);
    of->shapes = calloc(32 * (count + 1), sizeof *of->shapes);
    if (!item->json || !of->arrays || !of->shapes)
        return false;
    item->arrays = of->arrays;
    for (one.from = NULL; diel_i_next(arrays, &one, NULL); item->count++)
        if (!decode_array(one, data, size, &of->arrays[item->count], of->shapes + 32 * item->count))
            return item->count++, false;
    return true;
}

/* The item that stands in a file, mapped. */
static int map_item(const char *root, const char *data, size_t size, held *of)
{
    json place = diel_i_json(data + 1, data + size);
    int64_t offset = 0, bytes = 0;
    char *name = diel_i_plain(diel_i_member(place, "file")), path[2 * PATH_MAX];
    bool good = name && *name && *name != '/' && !strstr(name, "..") &&
                diel_i_int(diel_i_member(place, "offset"), &offset) &&
                diel_i_int(diel_i_member(place, "size"), &bytes) && bytes > 0;
    snprintf(path, sizeof path, "%s/%s", root, name ? name : "");
    free(name);
    struct stat found;
    int file = good ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0 && !fstat(file, &found) && found.st_size >= offset + bytes)
        of->map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, file, (off_t)offset);
    if (file >= 0)
        close(file);
    if (of->map == MAP_FAILED)
        of->map = NULL;
    of->mapped = (size_t)bytes;
    if (of->map)
        return DIEL_OK;
    return diel_i_fail(DIEL_REFUSED, "%s: an item of a stream should stand there (%lld bytes at %lld)", path,
                       (long long)bytes, (long long)offset);
}

int diel_i_decode(const char *root, const char *data, size_t size, diel_item *item)
{
    memset(item, 0, sizeof *item);
    held *of = item->held = calloc(1, sizeof *of);
    if (!of)
        return diel_i_fail(DIEL_SYSTEM, "no memory for an item");
    if (size && *data == 'r') {
        int code = map_item(root, data, size, of);
        if (code) {
            diel_release(item);
            return code;
        }
        data = of->map, size = of->mapped;
    } else {
        if (posix_memalign((void **)&of->bytes, ALIGNED, size + 1)) {
            diel_release(item);
            return diel_i_fail(DIEL_SYSTEM, "no memory for an item");
        }
        memcpy(of->bytes, data, size);
        of->bytes[size] = '\0';
        data = of->bytes;
    }
    bool good = size > 0;
    if (good && *data == 'b')
        item->bytes = data + 1, item->size = size - 1;
    else if (good && *data == 'j') /* a mapped text may end with its page, where no NUL follows */
        item->json = of->map ? (of->head = copied((json){data + 1, data + size})) : data + 1;
    else
        good = good && *data == 'n' && decode_arrays(data, size, item);
    if (good)
        return DIEL_OK;
    diel_release(item);
    return diel_i_fail(DIEL_REFUSED, "an item of a stream is in none of the known forms");
}

/* --- files ------------------------------------------------------------------------------------------------------ */

void diel_i_files_begin(item_files *files, const char *root, const char *folder)
{
    unsigned char token[6] = {0};
    memset(files, 0, sizeof *files);
    files->file = -1;
    snprintf(files->root, sizeof files->root, "%s", root);
    int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (random >= 0 && read(random, token, sizeof token) < 0)
        token[0] = (unsigned char)getpid(); /* O_EXCL finds out what is not unique */
    if (random >= 0)
        close(random);
    snprintf(files->stem, sizeof files->stem, "%.255s/items-%02x%02x%02x%02x%02x%02x", folder, token[0], token[1],
             token[2], token[3], token[4], token[5]);
}

static int roll(item_files *files)
{
    char path[2 * PATH_MAX];
    struct statfs system;
    diel_i_files_end(files);
    snprintf(files->name, sizeof files->name, "%s-%d.bin", files->stem, ++files->number);
    snprintf(path, sizeof path, "%s/%s", files->root, files->name);
    files->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (files->file < 0 || fstatfs(files->file, &system))
        return diel_i_fail(DIEL_SYSTEM, "%s: cannot be written: %s", path, strerror(errno));
    files->forced = system.f_type == NFS;
    files->fast = false;
    for (size_t n = 0; n < sizeof FAST / sizeof *FAST; n++)
        files->fast = files->fast || system.f_type == FAST[n];
    files->end = files->room = 0;
    return DIEL_OK;
}

static int write_all(int file, const encoded *item, off_t offset)
{
    struct iovec parts[DIEL_PARTS], *next = parts;
    int left = item->count;
    memcpy(parts, item->parts, (size_t)left * sizeof *parts);
    while (left) {
        ssize_t written = pwritev(file, next, left, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return diel_i_fail(DIEL_SYSTEM, "a large item cannot be written: %s", strerror(errno));
        offset += written;
        for (; left && (size_t)written >= next->iov_len; left--)
            written -= (ssize_t)next++->iov_len;
        if (left) {
            next->iov_base = (char *)next->iov_base + written;
            next->iov_len -= (size_t)written;
        }
    }
    return DIEL_OK;
}

int diel_i_files_append(item_files *files, const encoded *item, text *placeholder)
{
    int code = files->file < 0 || files->end >= ROLL ? roll(files) : DIEL_OK;
    off_t offset = files->end, end = offset + (off_t)item->size, page = sysconf(_SC_PAGESIZE);
    if (!code && files->fast && end > files->room) { /* asked for at once, so that writing is fast */
        off_t room = 2 * end < end + AHEAD ? 2 * end : end + AHEAD;
        files->fast = !posix_fallocate(files->file, files->room, room - files->room);
        files->room = room;
    }
    code = code ? code : write_all(files->file, item, offset);
    if (code)
        return code;
    if (files->forced && fsync(files->file)) /* on NFS another node sees only what was forced out */
        return diel_i_fail(DIEL_SYSTEM, "a large item cannot be written: %s", strerror(errno));
    files->end = (end + page - 1) / page * page;
    diel_i_addf(placeholder, "r{\"file\":\"%s\",\"offset\":%lld,\"size\":%zu}", files->name, (long long)offset,
                item->size);
    return DIEL_OK;
}

void diel_i_files_end(item_files *files)
{
    if (files->file >= 0) {
        if (files->room > files->end && ftruncate(files->file, files->end))
            files->room = 0; /* what is too much stays */
        close(files->file);
        files->file = -1;
    }
}
