/* Attributes that weir does not know. Those of operators are kept as text and dumped again; inputs,
 * constants and views cannot keep them. One warning is logged per file. */
#include <string.h>

#include "graph/file/pbtxt_load.h"
#include "graph/file/pbtxt_write.h"

static bool is_any(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (!strcmp(key, *keys))
            return true;
    return false;
}

static bool is_field(const struct weir__op *op, const char *key)
{
    for (size_t i = 0; i < op->nfields; i++)
        if (!strcmp(op->fields[i].name, key))
            return true;
    return false;
}

static bool is_known(const struct weir__op *op, const char *key)
{
    static const char *const marks[] = {"_user_stream_label",
                                        "_user_stream_priority",
                                        "_op_aicore_num",
                                        "_op_vectorcore_num",
                                        "_super_kernel_scope",
                                        "_super_kernel_options",
                                        "_op_exec_never_timeout",
                                        "_into",
                                        NULL};

    return is_field(op, key) || is_any(key, marks) || weir__pb_is_transpose(op, key);
}

/* Writes the value again from its events, without the file's comments and line breaks. */
static weir_status add_value(struct weir__pb_file *f, const struct weir__pb_attr *a,
                             struct weir__text *text)
{
    struct weir__pb_text value = f->text;
    struct weir__pb_reader r;
    struct weir__pb_event e;
    weir_status st;

    value.size = a->end;
    weir__pb_reader_init(&r, &value);
    r.at = a->begin;
    while (!(st = weir__pb_next(&r, &e)) && e.kind != WEIR__PB_END) {
        if (e.kind == WEIR__PB_CLOSE) {
            weir__text_add(text, "} ");
            continue;
        }
        weir__text_add(text, "%.*s", (int)e.name_size, e.name);
        if (e.kind == WEIR__PB_OPEN) {
            weir__text_add(text, " { ");
            continue;
        }
        if (memchr(e.raw, 0, e.raw_size))
            return weir__pb_fail(&f->text, WEIR_EPARSE, e.at,
                                 "attribute '%.80s' has a zero byte inside", a->key);
        weir__text_add(text, ": %.*s ", (int)e.raw_size, e.raw);
    }
    return st;
}

weir_status weir__pb_load_foreign(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                  const struct weir__op *op, char **out)
{
    struct weir__text text = {0};
    weir_status st = WEIR_OK;

    for (int i = n->attrs; i < n->attrs + n->nattrs && !st; i++) {
        const struct weir__pb_attr *a = &l->file.attrs[i];

        if (is_known(op, a->key))
            continue;
        weir__text_add(&text, "  attr { key: ");
        weir__pb_write_quoted(&text, a->key);
        weir__text_add(&text, " value { ");
        st = add_value(&l->file, a, &text);
        weir__text_add(&text, "} }\n");
        if (strcmp(a->key, "_source") && !l->kept.count++)
            l->kept.first = (struct weir__pb_attr_of){n->name, a->key};
    }
    if (!st && text.failed)
        st = weir__fail_nomem("%s: allocating attributes of node '%.80s'", l->file.text.where,
                              n->name);
    if (!st && text.data && !(*out = weir__strdup(text.data)))
        st = weir__fail_nomem("%s: allocating attributes of node '%.80s'", l->file.text.where,
                              n->name);
    weir__text_free(&text);
    return st;
}

void weir__pb_lose_foreign(struct weir__pb_loader *l, const struct weir__pb_node *n)
{
    static const char *const known[] = {"dtype",   "shape",  "name",    "data",  "value",
                                        "names",   "offset", "strides", "slice", "permute",
                                        "reshape", "expand", NULL};

    for (int i = n->attrs; i < n->attrs + n->nattrs; i++) {
        const char *key = l->file.attrs[i].key;

        if (is_any(key, known) || *key == '[') /* descriptions of inputs and outputs */
            continue;
        if (!l->lost.count++)
            l->lost.first = (struct weir__pb_attr_of){n->name, key};
    }
}

void weir__pb_warn_foreign(const struct weir__pb_loader *l)
{
    const char *where = l->file.text.where;

    if (l->kept.count)
        weir__log(WEIR_LOG_WARN,
                  "%s: weir does not know attribute '%.80s' of node '%.80s' (%d such in all); "
                  "it is kept for dumps",
                  where, l->kept.first.key, l->kept.first.node, l->kept.count);
    if (l->lost.count)
        weir__log(
            WEIR_LOG_WARN,
            "%s: weir does not know attribute '%.80s' of node '%.80s' (%d such in all), and it "
            "is not kept: only operators have foreign attributes",
            where, l->lost.first.key, l->lost.first.node, l->lost.count);
}
