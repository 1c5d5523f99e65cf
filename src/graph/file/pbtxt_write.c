/* Quoted strings, numbers, attributes and parameters as text. */
#include "graph/file/pbtxt_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/file/pbtxt_attr.h"

/* ---- scalars ---- */

void weir__pb_write_quoted(struct weir__text *t, const char *s)
{
    weir__text_add(t, "\"");
    while (*s) {
        size_t n = 0;

        while (((unsigned char)s[n] >= ' ' && s[n] != 127 && s[n] != '"' && s[n] != '\\') ||
               (signed char)s[n] < 0)
            n++;
        weir__text_add(t, "%.*s", (int)n, s);
        s += n;
        if (*s == '"' || *s == '\\')
            weir__text_add(t, "\\%c", *s++);
        else if (*s == '\n')
            weir__text_add(t, "\\n"), s++;
        else if (*s)
            weir__text_add(t, "\\%03o", (unsigned char)*s++);
    }
    weir__text_add(t, "\"");
}

/* Writes the shortest text that reads back as the same number, 40 rather than 4e+01. */
static void add_number(struct weir__text *t, double x)
{
    char text[40];
    int digits = 1;

    if (isnan(x) || isinf(x)) {
        weir__text_add(t, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    do {
        snprintf(text, sizeof text, "%.*g", digits, x);
    } while (strtod(text, NULL) != x && digits++ < 17);
    if (strchr(text, 'e') && fabs(x) >= 1 && fabs(x) < 1e15) /* such a number is an integer */
        snprintf(text, sizeof text, "%.0f", x);
    weir__text_add(t, "%s", text);
}

/* ---- attributes ---- */

void weir__pb_write_begin(struct weir__text *t, const char *key)
{
    weir__text_add(t, "  attr { key: \"%s\" value { ", key);
}

void weir__pb_write_end(struct weir__text *t)
{
    weir__text_add(t, " } }\n");
}

void weir__pb_write_string(struct weir__text *t, const char *key, const char *value)
{
    weir__pb_write_begin(t, key);
    weir__text_add(t, "s: ");
    /* Loading unwraps strings that look like a text form, so such a string is wrapped once more. */
    if (weir__pb_is_text_form(value, strlen(value))) {
        struct weir__text inner = {0};

        weir__text_add(&inner, "s: ");
        weir__pb_write_quoted(&inner, value);
        t->failed |= inner.failed;
        if (!inner.failed)
            weir__pb_write_quoted(t, inner.data);
        weir__text_free(&inner);
    } else {
        weir__pb_write_quoted(t, value);
    }
    weir__pb_write_end(t);
}

void weir__pb_write_int(struct weir__text *t, const char *key, int64_t value)
{
    weir__pb_write_begin(t, key);
    weir__text_add(t, "i: %lld", (long long)value);
    weir__pb_write_end(t);
}

void weir__pb_write_ints(struct weir__text *t, const char *key, const int64_t *values, int n)
{
    weir__pb_write_begin(t, key);
    weir__text_add(t, "list {");
    for (int i = 0; i < n; i++)
        weir__text_add(t, " i: %lld", (long long)values[i]);
    weir__text_add(t, " }");
    weir__pb_write_end(t);
}

const char *weir__pb_view_key(enum weir__view_kind kind)
{
    static const char *const keys[] = {
        [WEIR__VIEW_SLICE] = "slice",
        [WEIR__VIEW_PERMUTE] = "permute",
        [WEIR__VIEW_RESHAPE] = "reshape",
        [WEIR__VIEW_EXPAND] = "expand",
    };

    return keys[kind];
}

/* ---- parameters ---- */

static size_t field_size(const struct weir__op_field *f)
{
    static const size_t sizes[] = {
        [WEIR__FIELD_INT] = sizeof(int64_t), [WEIR__FIELD_FLOAT] = sizeof(double),
        [WEIR__FIELD_BOOL] = sizeof(bool),   [WEIR__FIELD_DTYPE] = sizeof(weir_dtype),
        [WEIR__FIELD_STRING] = sizeof(char),
    };

    return sizes[f->kind];
}

static void add_entry(struct weir__text *t, const struct weir__op_field *f, const char *at)
{
    switch (f->kind) {
    case WEIR__FIELD_INT:
        weir__text_add(t, "i: %lld", (long long)*(const int64_t *)at);
        break;
    case WEIR__FIELD_FLOAT:
        weir__text_add(t, "f: ");
        add_number(t, *(const double *)at);
        break;
    case WEIR__FIELD_BOOL:
        weir__text_add(t, "b: %s", *(const bool *)at ? "true" : "false");
        break;
    default:
        weir__text_add(t, "s: \"%s\"", weir_dtype_name(*(const weir_dtype *)at));
    }
}

/* Zeros are not written: an absent attribute means 0. */
static bool is_default(const struct weir__op_field *f, const char *at, size_t count)
{
    size_t bytes = f->kind == WEIR__FIELD_STRING ? 1 : count * field_size(f);

    for (size_t i = 0; i < bytes; i++)
        if (at[i])
            return false;
    return f->kind != WEIR__FIELD_DTYPE;
}

void weir__pb_write_params(struct weir__text *t, const struct weir__node *n)
{
    for (size_t i = 0; i < n->op->nfields; i++) {
        const struct weir__op_field *f = &n->op->fields[i];
        const struct weir__op_field *counter = weir__pb_count_field(n->op, f);
        const char *params = n->params, *at = params + f->offset;
        size_t count = counter ? (size_t) * (const int64_t *)(params + counter->offset) : f->count;

        if (weir__pb_is_count(n->op, f) || (counter ? !count : is_default(f, at, count)))
            continue;
        if (f->kind == WEIR__FIELD_STRING) {
            weir__pb_write_string(t, f->name, at);
            continue;
        }
        weir__pb_write_begin(t, f->name);
        if (f->count == 1)
            add_entry(t, f, at);
        else
            weir__text_add(t, "list {");
        for (size_t k = 0; k < count && f->count > 1; k++) {
            weir__text_add(t, " ");
            add_entry(t, f, at + k * field_size(f));
        }
        if (f->count > 1)
            weir__text_add(t, " }");
        weir__pb_write_end(t);
    }
}
