/* Attribute values as scalars, and scalars as types. */
#include "graph/file/pbtxt_attr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct weir__pb_attr *weir__pb_attr_find(const struct weir__pb_file *f,
                                               const struct weir__pb_node *n, const char *key)
{
    for (int i = n->attrs + n->nattrs - 1; i >= n->attrs; i--)
        if (!strcmp(f->attrs[i].key, key))
            return &f->attrs[i];
    return NULL;
}

/* ---- text forms ---- */

/* Whether the string begins like a value or a tensor description in text form. Most strings do not,
 * and skip the full check. */
static bool has_form_head(const char *data, size_t size)
{
    static const char *const heads[] = {"s",    "i", "f",     "b",      "dt",   "type",
                                        "list", "t", "shape", "tensor", "name", "dtype"};
    size_t n = 0, next;

    while (n < size && data[n] >= 'a' && data[n] <= 'z')
        n++;
    for (next = n; next < size && data[next] == ' ';)
        next++;
    if (next == size || (data[next] != ':' && data[next] != '{'))
        return false;
    for (size_t i = 0; i < weir__countof(heads); i++)
        if (strlen(heads[i]) == n && !memcmp(heads[i], data, n))
            return true;
    return false;
}

bool weir__pb_is_text_form(const char *data, size_t size)
{
    struct weir__pb_text text = {.data = data, .size = size};
    struct weir__pb_reader r;
    struct weir__pb_event e;

    if (!has_form_head(data, size))
        return false;
    weir__pb_reader_init(&r, &text);
    do {
        if (weir__pb_next(&r, &e))
            return false;
    } while (e.kind != WEIR__PB_END);
    return true;
}

/* If the value is a single string that holds a text form, continues reading inside that. */
static weir_status unwrap(struct weir__pb_value *v, const struct weir__pb_event *e)
{
    size_t size;
    weir_status st;

    if (!has_form_head(e->raw + 1, e->raw_size - 1))
        return WEIR_OK;
    if (!(v->decoded = weir__malloc(e->raw_size)))
        return weir__fail_nomem("%s: allocating attribute '%.80s'", v->file->text.where,
                                v->attr->key);
    if ((st = weir__pb_unquote(&v->outer, e, v->decoded, &size)))
        return st;
    if (weir__pb_is_text_form(v->decoded, size)) {
        v->inner = (struct weir__pb_text){.where = v->file->text.where,
                                          .data = v->decoded,
                                          .size = size,
                                          .outer = &v->outer,
                                          .outer_at = e->at};
        weir__pb_reader_init(&v->reader, &v->inner);
    }
    return WEIR_OK;
}

static void rewind_value(struct weir__pb_value *v)
{
    weir__pb_reader_init(&v->reader, &v->outer);
    v->reader.at = v->attr->begin;
}

weir_status weir__pb_value_open(struct weir__pb_value *v, struct weir__pb_file *f,
                                const struct weir__pb_node *n, const struct weir__pb_attr *a)
{
    struct weir__pb_event first, second;
    bool single;
    weir_status st;

    v->file = f;
    v->node = n;
    v->attr = a;
    v->decoded = NULL;
    v->outer = f->text;
    v->outer.size = a->end;
    if ((st = weir__pb_source_need(f->text.source, a->begin, a->end)))
        return st;
    rewind_value(v);
    single = !(st = weir__pb_next(&v->reader, &first)) && first.kind == WEIR__PB_STRING &&
             !(st = weir__pb_next(&v->reader, &second)) && second.kind == WEIR__PB_END;
    rewind_value(v);
    if (single && !st)
        st = unwrap(v, &first);
    if (st)
        weir__pb_value_close(v);
    return st;
}

weir_status weir__pb_value_next(struct weir__pb_value *v, struct weir__pb_event *e)
{
    weir_status st;

    do {
        if ((st = weir__pb_next(&v->reader, e)))
            return st;
    } while (!weir__pb_is_scalar(e) && e->kind != WEIR__PB_END);
    return WEIR_OK;
}

void weir__pb_value_close(struct weir__pb_value *v)
{
    weir__free(v->decoded);
    v->decoded = NULL;
}

weir_status weir__pb_value_fail(const struct weir__pb_value *v, weir_status status,
                                const char *format, ...)
{
    char rest[512];
    va_list args;

    va_start(args, format);
    vsnprintf(rest, sizeof rest, format, args);
    va_end(args);
    return weir__pb_fail(&v->file->text, status, v->attr->begin,
                         "node '%.80s': attribute '%.80s' %s", v->node->name, v->attr->key, rest);
}

/* ---- scalars as types ---- */

static weir_status wrong_type(const struct weir__pb_value *v, const struct weir__pb_event *e,
                              const char *wanted)
{
    if (e->kind == WEIR__PB_END)
        return weir__pb_value_fail(v, WEIR_EINVAL, "is empty, not %s", wanted);
    return weir__pb_value_fail(v, WEIR_EINVAL, "is %s, not %s",
                               weir__pb_make_excerpt(e->raw, e->raw_size).text, wanted);
}

/* The text of a short scalar, a string without its quotes; NULL if it is too long. */
static const char *short_text(const struct weir__pb_value *v, const struct weir__pb_event *e,
                              char buffer[64])
{
    size_t size = e->raw_size;

    if (e->kind == WEIR__PB_END || size >= 64)
        return NULL;
    if (e->kind != WEIR__PB_STRING)
        memcpy(buffer, e->raw, size);
    else if (weir__pb_unquote(v->reader.text, e, buffer, &size) || memchr(buffer, 0, size))
        return NULL;
    buffer[size] = 0;
    return buffer;
}

weir_status weir__pb_to_int(const struct weir__pb_value *v, const struct weir__pb_event *e,
                            int64_t *out)
{
    char buffer[64], *end;
    const char *text = short_text(v, e, buffer);
    long long value;

    if (!text || !*text)
        return wrong_type(v, e, "an integer");
    errno = 0;
    value = strtoll(text, &end, e->kind == WEIR__PB_NUMBER ? 0 : 10);
    if (*end || errno)
        return wrong_type(v, e, "an integer");
    *out = value;
    return WEIR_OK;
}

weir_status weir__pb_to_float(const struct weir__pb_value *v, const struct weir__pb_event *e,
                              double *out)
{
    char buffer[64], *end;
    const char *text = short_text(v, e, buffer);
    double value;

    if (!text || !*text)
        return wrong_type(v, e, "a number");
    value = strtod(text, &end);
    if (e->kind == WEIR__PB_NUMBER && end > text && (*end == 'f' || *end == 'F'))
        end++;
    if (*end)
        return wrong_type(v, e, "a number");
    *out = value;
    return WEIR_OK;
}

weir_status weir__pb_to_bool(const struct weir__pb_value *v, const struct weir__pb_event *e,
                             bool *out)
{
    char buffer[64];
    const char *text = short_text(v, e, buffer);
    bool yes = text && (!strcasecmp(text, "true") || !strcmp(text, "1"));

    if (!yes && (!text || (strcasecmp(text, "false") && strcmp(text, "0"))))
        return wrong_type(v, e, "true or false");
    *out = yes;
    return WEIR_OK;
}

weir_status weir__pb_to_string(const struct weir__pb_value *v, const struct weir__pb_event *e,
                               const char **out)
{
    if (e->kind != WEIR__PB_STRING)
        return wrong_type(v, e, "a string");
    return weir__pb_file_word(v->file, v->reader.text, e, out);
}

weir_status weir__pb_to_dtype(const struct weir__pb_value *v, const struct weir__pb_event *e,
                              weir_dtype *out)
{
    static const struct {
        const char *name;
        weir_dtype dtype;
    } names[] = {
#define ROW(id, bytes, text) {text, WEIR_##id},
        WEIR_DTYPE_LIST(ROW)
#undef ROW
            {"float", WEIR_F32},
        {"float32", WEIR_F32},
        {"half", WEIR_F16},
        {"float16", WEIR_F16},
        {"double", WEIR_F64},
        {"bfloat16", WEIR_BF16},
        {"int64", WEIR_I64},
        {"float64", WEIR_F64},
        {"int32", WEIR_I32},
        {"int8", WEIR_I8},
        {"uint8", WEIR_U8},
    };
    char buffer[64];
    const char *text = short_text(v, e, buffer);

    if (text && !strncmp(text, "DT_", 3))
        text += 3;
    else if (text && !strncmp(text, "torch.", 6))
        text += 6;
    for (size_t i = 0; text && i < weir__countof(names); i++)
        if (!strcasecmp(text, names[i].name)) {
            *out = names[i].dtype;
            return WEIR_OK;
        }
    return wrong_type(v, e, "a data type (f32, f16, bf16, f64, i64, i32, i8, u8, bool)");
}

/* ---- attributes of one scalar ---- */

/* Opens the attribute and reads its first scalar; *found is false if there is none. */
static weir_status open_first(struct weir__pb_file *f, const struct weir__pb_node *n,
                              const char *key, struct weir__pb_value *v, struct weir__pb_event *e,
                              bool *found)
{
    const struct weir__pb_attr *a = weir__pb_attr_find(f, n, key);
    weir_status st;

    *found = a != NULL;
    if (!a || (st = weir__pb_value_open(v, f, n, a)))
        return a ? st : WEIR_OK;
    if ((st = weir__pb_value_next(v, e)))
        weir__pb_value_close(v);
    return st;
}

#define DEFINE_GETTER(name, type)                                                            \
    weir_status weir__pb_attr_##name(struct weir__pb_file *f, const struct weir__pb_node *n, \
                                     const char *key, type *out)                             \
    {                                                                                        \
        struct weir__pb_value v;                                                             \
        struct weir__pb_event e;                                                             \
        bool found;                                                                          \
        weir_status st = open_first(f, n, key, &v, &e, &found);                              \
                                                                                             \
        if (st || !found)                                                                    \
            return st;                                                                       \
        st = weir__pb_to_##name(&v, &e, out);                                                \
        weir__pb_value_close(&v);                                                            \
        return st;                                                                           \
    }
DEFINE_GETTER(int, int64_t)
DEFINE_GETTER(bool, bool)
DEFINE_GETTER(string, const char *)

weir_status weir__pb_attr_ints(struct weir__pb_file *f, const struct weir__pb_node *n,
                               const char *key, int64_t *out, int max, int *count)
{
    struct weir__pb_value v;
    struct weir__pb_event e;
    bool found;
    weir_status st = open_first(f, n, key, &v, &e, &found);

    *count = found ? 0 : -1;
    if (st || !found)
        return st;
    while (!st && e.kind != WEIR__PB_END) {
        if (*count == max)
            st = weir__pb_value_fail(&v, WEIR_EINVAL, "has more than %d entries", max);
        else if (!(st = weir__pb_to_int(&v, &e, &out[*count])) && ++*count)
            st = weir__pb_value_next(&v, &e);
    }
    weir__pb_value_close(&v);
    return st;
}
