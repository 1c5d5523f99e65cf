#include "trace/read/event.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *keep(struct weir__event *e, const char *text)
{
    size_t size = text ? strlen(text) + 1 : 1;
    char *copy = e->bytes + e->used;

    if (size > sizeof e->bytes - e->used)
        return "";
    memcpy(copy, text ? text : "", size);
    e->used += size;
    return copy;
}

/* Reads a pid, tid or id, which is a string in some profiles and a number in others. */
static const char *keep_id(struct weir__json *j, struct weir__event *e)
{
    char text[32];

    switch (weir__json_peek(j)) {
    case WEIR__JSON_STRING:
        return keep(e, weir__json_string(j));
    case WEIR__JSON_NUMBER:
        snprintf(text, sizeof text, "%.0Lf", weir__json_number(j));
        return keep(e, text);
    default:
        weir__json_skip(j);
        return "";
    }
}

static long double number_of(const char *text)
{
    struct weir__json j;
    long double value;

    weir__json_init(&j, "", text, strlen(text));
    if (weir__json_peek(&j) != WEIR__JSON_NUMBER)
        return NAN;
    value = weir__json_number(&j);
    return j.bad ? NAN : value;
}

/* Reads a time: a number, or a number written as a string. */
static long double read_time(struct weir__json *j)
{
    const char *text;
    long double value;

    if (weir__json_peek(j) != WEIR__JSON_STRING)
        return weir__json_number(j);
    if (!(text = weir__json_string(j)))
        return 0;
    value = number_of(text);
    if (isnan(value))
        weir__json_fail(j, WEIR_EPARSE, "expected a time in microseconds");
    return isnan(value) ? 0 : value;
}

/* Returns the product of a list of numbers, such as a grid; NaN for any other list. */
static long double read_product(struct weir__json *j)
{
    long double product = 1;

    for (weir__json_array(j); weir__json_item(j);)
        if (weir__json_peek(j) == WEIR__JSON_NUMBER) {
            product *= weir__json_number(j);
        } else {
            weir__json_skip(j);
            product = NAN;
        }
    return product;
}

static void read_args(struct weir__json *j, struct weir__event *e)
{
    char key[64];

    if (weir__json_peek(j) != WEIR__JSON_OBJECT) {
        weir__json_skip(j);
        return;
    }
    for (weir__json_object(j); weir__json_key(j, key, sizeof key);) {
        enum weir__json_kind kind = weir__json_peek(j);
        struct weir__event_arg *a = &e->args[e->nargs];

        if (kind == WEIR__JSON_OBJECT || kind == WEIR__JSON_NONE || e->nargs == WEIR__EVENT_ARGS ||
            (kind == WEIR__JSON_ARRAY && strcmp(key, "grid") != 0)) {
            weir__json_skip(j);
            continue;
        }
        *a = (struct weir__event_arg){.key = keep(e, key)};
        if (kind == WEIR__JSON_STRING) {
            a->text = keep(e, weir__json_string(j));
        } else if (kind == WEIR__JSON_NUMBER) {
            a->number = weir__json_number(j);
        } else if (kind == WEIR__JSON_ARRAY) {
            a->number = read_product(j);
        } else {
            a->number = weir__json_bool(j);
            a->word = true;
        }
        e->nargs += *a->key != 0;
    }
}

bool weir__event_read(struct weir__json *j, struct weir__event *e)
{
    char key[16];

    e->phase = 0;
    e->name = e->category = e->pid = e->tid = "";
    e->ts = e->dur = 0;
    e->has_dur = false;
    e->nargs = 0;
    e->used = 0;
    if (!weir__json_object(j))
        return false;
    while (weir__json_key(j, key, sizeof key)) {
        if (!strcmp(key, "ph")) {
            const char *phase = weir__json_string(j);

            e->phase = phase ? *phase : 0;
        } else if (!strcmp(key, "name") || !strcmp(key, "pid") || !strcmp(key, "tid") ||
                   !strcmp(key, "cat")) {
            const char *text = keep_id(j, e);

            *(*key == 'n'   ? &e->name
              : *key == 'c' ? &e->category
              : *key == 'p' ? &e->pid
                            : &e->tid) = text;
        } else if (!strcmp(key, "ts")) {
            e->ts = read_time(j);
        } else if (!strcmp(key, "dur")) {
            e->dur = read_time(j);
            e->has_dur = true;
        } else if (!strcmp(key, "args")) {
            read_args(j, e);
        } else {
            weir__json_skip(j);
        }
    }
    return !j->bad;
}

const struct weir__event_arg *weir__event_find_arg(const struct weir__event *e, const char *key)
{
    for (int i = 0; i < e->nargs; i++)
        if (!strcmp(e->args[i].key, key))
            return &e->args[i];
    return NULL;
}

const char *weir__event_text(const struct weir__event *e, const char *key)
{
    const struct weir__event_arg *a = weir__event_find_arg(e, key);

    return a ? a->text : NULL;
}

long double weir__event_number(const struct weir__event *e, const char *key, long double otherwise)
{
    const struct weir__event_arg *a = weir__event_find_arg(e, key);
    long double value = !a ? NAN : a->text ? number_of(a->text) : a->number;

    return isnan(value) ? otherwise : value;
}

int64_t weir__event_ns(long double us)
{
    const long double least = -0x1p61L, most = 0x1p62L;
    long double ns = us * 1000;

    return (int64_t)llroundl(ns > most ? most : ns < least ? least : ns);
}
