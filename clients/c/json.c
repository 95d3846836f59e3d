/* Texts that grow, and finding one's way in JSON without a tree. */
#include "inner.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char message[1024];

const char *diel_error(void) { return message; }

int diel_i_fail(int code, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vsnprintf(message, sizeof message, format, words);
    va_end(words);
    return code;
}

/* --- texts ------------------------------------------------------------------------------------------------------ */

static bool make_room(text *to, size_t more)
{
    if (to->failed || to->size + more + 1 <= to->room)
        return !to->failed;
    size_t room = to->room ? to->room : 128;
    while (room < to->size + more + 1)
        room *= 2;
    char *data = realloc(to->data, room);
    to->failed = data == NULL;
    if (data)
        to->data = data, to->room = room;
    return !to->failed;
}

void diel_i_add(text *to, const void *bytes, size_t size)
{
    if (!make_room(to, size))
        return;
    if (size)
        memcpy(to->data + to->size, bytes, size);
    to->size += size;
    to->data[to->size] = '\0';
}

void diel_i_addf(text *to, const char *format, ...)
{
    va_list words, again;
    va_start(words, format);
    va_copy(again, words);
    int size = vsnprintf(NULL, 0, format, words);
    if (size >= 0 && make_room(to, (size_t)size)) {
        vsnprintf(to->data + to->size, (size_t)size + 1, format, again);
        to->size += (size_t)size;
    }
    va_end(again);
    va_end(words);
}

void diel_i_add_quoted(text *to, const char *plain)
{
    diel_i_add(to, "\"", 1);
    for (const char *at = plain; *at; at++) {
        if (*at == '"' || *at == '\\')
            diel_i_addf(to, "\\%c", *at);
        else if ((unsigned char)*at < 0x20)
            diel_i_addf(to, "\\u%04x", (unsigned)*at);
        else
            diel_i_add(to, at, 1);
    }
    diel_i_add(to, "\"", 1);
}

void diel_i_forget(text *one)
{
    free(one->data);
    memset(one, 0, sizeof *one);
}

/* --- JSON: each of these returns what follows, NULL where there is something else ------------------------------ */

static const char *after_value(const char *at, const char *end, int depth);

static const char *after_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* The last byte of a letter in UTF-8. */
static const char *end_of_letter(const char *at, const char *end)
{
    unsigned char first = (unsigned char)*at;
    int more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : -1;
    if (more < 0 || more >= end - at)
        return NULL;
    for (; more; more--)
        if (((unsigned char)*++at & 0xC0) != 0x80)
            return NULL;
    return at;
}

static const char *after_text(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        if (*at == '"')
            return at + 1;
        if (!(at = end_of_letter(at, end)))
            return NULL;
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at != '\\')
            continue;
        if (++at >= end || !strchr("\"\\/bfnrtu", *at) || !*at)
            return NULL;
        for (int digits = *at == 'u' ? 4 : 0; digits; digits--)
            if (++at >= end || !isxdigit((unsigned char)*at))
                return NULL;
    }
    return NULL;
}

static const char *after_digits(const char *at, const char *end)
{
    const char *from = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > from ? at : NULL;
}

static const char *after_number(const char *at, const char *end)
{
    if (at < end && *at == '-')
        at++;
    if (at < end && *at == '0')
        at++;
    else if (!(at = after_digits(at, end)))
        return NULL;
    if (at < end && *at == '.' && !(at = after_digits(at + 1, end)))
        return NULL;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        at = after_digits(at, end);
    }
    return at;
}

static const char *after_word(const char *at, const char *end)
{
    static const char *const words[] = {"null", "true", "false", "NaN", "Infinity", "-Infinity"};
    for (size_t n = 0; n < sizeof words / sizeof *words; n++) {
        size_t size = strlen(words[n]);
        if ((size_t)(end - at) >= size && !memcmp(at, words[n], size))
            return at + size;
    }
    return NULL;
}

static const char *after_members(const char *at, const char *end, int depth)
{
    char open = *at, close = open == '{' ? '}' : ']';
    at = after_space(at + 1, end);
    if (at < end && *at == close)
        return at + 1;
    while (at && at < end) {
        if (open == '{') {
            if (*at != '"' || !(at = after_text(at, end)))
                return NULL;
            at = after_space(at, end);
            if (at >= end || *at != ':')
                return NULL;
            at = after_space(at + 1, end);
        }
        at = after_value(at, end, depth + 1);
        at = at ? after_space(at, end) : NULL;
        if (!at || at >= end)
            return NULL;
        if (*at == close)
            return at + 1;
        if (*at != ',')
            return NULL;
        at = after_space(at + 1, end);
    }
    return NULL;
}

static const char *after_value(const char *at, const char *end, int depth)
{
    if (at >= end || depth > 500)
        return NULL;
    if (*at == '"')
        return after_text(at, end);
    if (*at == '{' || *at == '[')
        return after_members(at, end, depth);
    const char *word = after_word(at, end);
    return word ? word : after_number(at, end);
}

json diel_i_json(const char *from, const char *to)
{
    json none = {NULL, NULL}, found = {after_space(from, to), NULL};
    found.to = after_value(found.from, to, 0);
    return found.to && after_space(found.to, to) == to ? found : none;
}

bool diel_i_next(json within, json *item, json *key)
{
    const char *at = item->from ? after_space(item->to, within.to) : within.from;
    if (!within.from || at >= within.to || (!item->from && *at != '{' && *at != '['))
        return false;
    at = after_space(at + 1, within.to); /* behind the bracket or the comma */
    if (at >= within.to)
        return false;
    if (*within.from == '{') {
        const char *end = *at == '"' ? after_text(at, within.to) : NULL;
        if (!end)
            return false;
        if (key)
            key->from = at, key->to = end;
        at = after_space(after_space(end, within.to) + 1, within.to);
    }
    const char *end = after_value(at, within.to, 0);
    item->from = at, item->to = end;
    return end != NULL;
}

json diel_i_member(json object, const char *wanted)
{
    json item = {NULL, NULL}, key, none = {NULL, NULL};
    if (!object.from || *object.from != '{')
        return none;
    while (diel_i_next(object, &item, &key)) {
        char *plain = memchr(key.from, '\\', (size_t)(key.to - key.from)) ? diel_i_plain(key) : NULL;
        size_t size = strlen(wanted);
        bool same = plain ? !strcmp(plain, wanted)
                          : (size_t)(key.to - key.from) == size + 2 && !memcmp(key.from + 1, wanted, size);
        free(plain);
        if (same)
            return item;
    }
    return none;
}

bool diel_i_true(json value) { return value.from && *value.from == 't'; }

bool diel_i_int(json value, int64_t *number)
{
    if (!value.from || !(isdigit((unsigned char)*value.from) || *value.from == '-'))
        return false;
    *number = strtoll(value.from, NULL, 10);
    return true;
}

static void add_utf8(text *to, unsigned long point)
{
    unsigned char bytes[4];
    int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    bytes[0] = (unsigned char)(first[more] | point >> 6 * more);
    for (int n = 1; n <= more; n++)
        bytes[n] = (unsigned char)(0x80 | (point >> 6 * (more - n) & 0x3F));
    diel_i_add(to, bytes, (size_t)more + 1);
}

static unsigned long hex4(const char *at)
{
    char digits[5] = {at[0], at[1], at[2], at[3], 0};
    return strtoul(digits, NULL, 16);
}

char *diel_i_plain(json value)
{
    text plain = {0};
    diel_i_add(&plain, "", 0);
    if (!value.from || *value.from != '"')
        return plain.data;
    for (const char *at = value.from + 1; at < value.to - 1; at++) {
        static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
        if (*at != '\\') {
            diel_i_add(&plain, at, 1);
        } else if (*++at != 'u') {
            const char *letter = strchr(letters, *at);
            diel_i_add(&plain, letter ? &meant[letter - letters] : at, 1);
        } else {
            unsigned long point = hex4(at + 1);
            at += 4;
            if (point >> 10 == 0x36 && value.to - at > 7 && at[1] == '\\' && at[2] == 'u') {
                point = 0x10000 + ((point & 0x3FF) << 10) + (hex4(at + 3) & 0x3FF);
                at += 6;
            }
            add_utf8(&plain, point);
        }
    }
    return plain.data;
}

int diel_json_number(const char *given, const char *key, double *number)
{
    json value = diel_i_json(given, given + strlen(given));
    if (key && value.from && *value.from == '[') {
        long wanted = strtol(key, NULL, 10);
        json item = {NULL, NULL};
        while (diel_i_next(value, &item, NULL) && wanted-- > 0)
            ;
        value = item;
    } else if (key) {
        value = diel_i_member(value, key);
    }
    char first = value.from ? *value.from : 'n';
    if (first != '-' && first != 'N' && first != 'I' && !isdigit((unsigned char)first))
        return diel_i_fail(DIEL_USAGE, "no number '%s' in %.200s", key ? key : "", given);
    *number = strtod(value.from, NULL);
    return DIEL_OK;
}
