/* Builds records from the events of the reader. */
#include "graph/file/pbtxt_file.h"

#include <limits.h>
#include <string.h>

#include "graph/file/pbtxt_attr.h"

/* ---- memory ---- */

enum { MOST_CHUNK = 1 << 20 };

struct weir__pb_chunk {
    struct weir__pb_chunk *next;
    size_t used, size;
    char data[];
};

static char *chunk_alloc(struct weir__pb_chunk **list, size_t size)
{
    struct weir__pb_chunk *c = *list;

    if (!c || c->size - c->used < size) {
        /* chunks grow, because the C library returns large ones to the system when they are
         * freed */
        size_t twice = c ? 2 * c->size : 4096, room = twice < MOST_CHUNK ? twice : MOST_CHUNK;

        room = size > room ? size : room;
        if (!(c = weir__malloc(sizeof *c + room)))
            return NULL;
        *c = (struct weir__pb_chunk){.next = *list, .size = room};
        *list = c;
    }
    c->used += size;
    return c->data + c->used - size;
}

/* Ensures room for one more entry. */
static weir_status grow(struct weir__pb_file *f, void *array, int n, int *cap, size_t size)
{
    int want = *cap ? 2 * *cap : 64;
    void *old, *fresh;

    if (n < *cap)
        return WEIR_OK;
    if (*cap > INT_MAX / 4 || !(fresh = weir__malloc((size_t)want * size)))
        return weir__fail_nomem("%s: allocating %d records of a graph file", f->text.where, want);
    memcpy(&old, array, sizeof old);
    if (n)
        memcpy(fresh, old, (size_t)n * size);
    weir__free(old);
    memcpy(array, &fresh, sizeof fresh);
    *cap = want;
    return WEIR_OK;
}

static void chunks_free(struct weir__pb_chunk **list)
{
    while (*list) {
        struct weir__pb_chunk *next = (*list)->next;

        weir__free(*list);
        *list = next;
    }
}

static void free_list(void *strings)
{
    struct weir__pb_chunk *list = strings;

    chunks_free(&list);
}

void weir__pb_file_hand_over(struct weir__pb_file *f, void **strings, void (**free_strings)(void *))
{
    *strings = f->strings;
    *free_strings = free_list;
    f->strings = NULL;
}

int *weir__pb_file_ints(struct weir__pb_file *f, const int *from, int n)
{
    char *room = chunk_alloc(&f->strings, (size_t)n * sizeof *from + sizeof *from - 1);
    int *ints = (int *)(((uintptr_t)room + sizeof *from - 1) & ~(uintptr_t)(sizeof *from - 1));

    if (!room)
        return NULL;
    memcpy(ints, from, (size_t)n * sizeof *from);
    return ints;
}

void weir__pb_file_share_names(struct weir__pb_file *f)
{
    for (int i = 0; i < f->nrefs; i++)
        if (f->refs[i].node < 0 && f->refs[i].kind != WEIR__PB_ABSENT)
            return;
    for (int i = 0; i < f->nrefs; i++)
        f->refs[i].name = f->refs[i].node >= 0 ? f->nodes[f->refs[i].node].name : "";
    chunks_free(&f->ref_strings);
    weir__pb_source_tidy(f->text.source);
}

void weir__pb_file_fini(struct weir__pb_file *f)
{
    chunks_free(&f->strings);
    chunks_free(&f->ref_strings);
    weir__free(f->nodes);
    weir__free(f->refs);
    weir__free(f->attrs);
    *f = (struct weir__pb_file){0};
}

static weir_status string_in(struct weir__pb_file *f, struct weir__pb_chunk **list,
                             const struct weir__pb_text *text, const struct weir__pb_event *e,
                             const char **out)
{
    size_t size;
    weir_status st;
    char *copy;

    if (e->kind != WEIR__PB_STRING)
        return weir__pb_fail(text, WEIR_EPARSE, e->at, "expected a string, found '%s'",
                             weir__pb_make_excerpt(e->raw, e->raw_size).text);
    if (e->raw_size > WEIR__PB_MAX_NAME)
        return weir__pb_fail(text, WEIR_EPARSE, e->at,
                             "a string of %zu bytes is too long for a name (at most %d)",
                             e->raw_size, WEIR__PB_MAX_NAME);
    if (!(copy = chunk_alloc(list, e->raw_size + 1)))
        return weir__fail_nomem("%s: allocating a string of a graph file", f->text.where);
    if ((st = weir__pb_unquote(text, e, copy, &size)))
        return st;
    if (memchr(copy, 0, size))
        return weir__pb_fail(text, WEIR_EPARSE, e->at, "the name '%s' has a zero byte inside",
                             weir__pb_make_excerpt(copy, size).text);
    copy[size] = 0;
    *out = copy;
    return WEIR_OK;
}

weir_status weir__pb_file_string(struct weir__pb_file *f, const struct weir__pb_text *text,
                                 const struct weir__pb_event *e, const char **out)
{
    return string_in(f, &f->strings, text, e, out);
}

weir_status weir__pb_file_word(struct weir__pb_file *f, const struct weir__pb_text *text,
                               const struct weir__pb_event *e, const char **out)
{
    size_t size = e->raw_size > 2 ? e->raw_size - 2 : 0; /* without its quotes */
    uint32_t h = 0;
    weir_status st;
    const char **word;

    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)e->raw[1 + i]) * 16777619u;
    word = &f->words[(h ^ h >> 16) % WEIR__PB_WORDS];
    if (e->kind == WEIR__PB_STRING && *word && size && !strncmp(*word, e->raw + 1, size) &&
        !(*word)[size] && !memchr(e->raw + 1, '\\', size) && !memchr(e->raw + 1, e->raw[0], size)) {
        *out = *word;
        return WEIR_OK;
    }
    if (!(st = weir__pb_file_string(f, text, e, out)))
        *word = *out;
    return st;
}

/* ---- references ---- */

/* Splits "name:12", output 12 of name. Without an index, *index is 0 and the name stays. */
static bool cut_index(char *name, int *index)
{
    char *colon = strrchr(name, ':');
    long value = 0;

    *index = 0;
    if (!colon || !colon[1])
        return true;
    for (const char *p = colon + 1; *p; p++) {
        if (*p < '0' || *p > '9')
            return true;
        if ((value = 10 * value + (*p - '0')) > INT_MAX)
            return false;
    }
    *colon = 0;
    *index = (int)value;
    return true;
}

static weir_status add_ref(struct weir__pb_file *f, const struct weir__pb_text *text,
                           const struct weir__pb_event *e, bool into)
{
    struct weir__pb_ref ref = {.node = -1, .at = text->outer ? text->outer_at : e->at};
    weir_status st;

    if ((st = string_in(f, &f->ref_strings, text, e, &ref.name)) ||
        (st = grow(f, &f->refs, f->nrefs, &f->cap_refs, sizeof *f->refs)))
        return st;
    ref.kind = into ? WEIR__PB_INTO : !*ref.name ? WEIR__PB_ABSENT : WEIR__PB_DATA;
    if (!into && *ref.name == '^') {
        ref.kind = WEIR__PB_CONTROL;
        ref.name++;
    } else if (!cut_index((char *)ref.name, &ref.index)) {
        return weir__pb_fail(text, WEIR_EPARSE, e->at,
                             "the output index of input '%.80s' is too large", ref.name);
    }
    f->refs[f->nrefs++] = ref;
    return WEIR_OK;
}

static weir_status add_into_refs(struct weir__pb_file *f, const struct weir__pb_node *n)
{
    const struct weir__pb_attr *attr = weir__pb_attr_find(f, n, "_into");
    struct weir__pb_event e;
    struct weir__pb_value v;
    weir_status st;

    if (!attr)
        return WEIR_OK;
    if ((st = weir__pb_value_open(&v, f, n, attr)))
        return st;
    while (!(st = weir__pb_value_next(&v, &e)) && e.kind != WEIR__PB_END)
        if ((st = add_ref(f, v.reader.text, &e, true)))
            break;
    weir__pb_value_close(&v);
    return st;
}

/* ---- nodes ---- */

/* attr { key: "..." value { ... } } */
static weir_status read_attr(struct weir__pb_file *f, struct weir__pb_reader *r, size_t at)
{
    struct weir__pb_attr attr = {.key = NULL};
    bool valued = false;
    struct weir__pb_event e;
    weir_status st;

    while (!(st = weir__pb_next(r, &e)) && e.kind != WEIR__PB_CLOSE) {
        if (weir__pb_is_scalar(&e) && weir__pb_is_named(&e, "key")) {
            st = weir__pb_file_word(f, &f->text, &e, &attr.key);
        } else if (e.kind == WEIR__PB_OPEN) {
            bool value = weir__pb_is_named(&e, "value");
            size_t begin = r->at, end;

            if (!(st = weir__pb_skip(r, &end)) && value) {
                valued = true;
                attr.begin = (uint32_t)begin;
                attr.end = (uint32_t)end;
            }
        }
        if (st)
            return st;
    }
    if (st)
        return st;
    if (!attr.key || !valued)
        return weir__pb_fail(&f->text, WEIR_EPARSE, at, "an attribute without a %s",
                             attr.key ? "value { }" : "key");
    if ((st = grow(f, &f->attrs, f->nattrs, &f->cap_attrs, sizeof *f->attrs)))
        return st;
    f->attrs[f->nattrs++] = attr;
    return WEIR_OK;
}

static weir_status read_node_field(struct weir__pb_file *f, struct weir__pb_reader *r,
                                   const struct weir__pb_event *e, struct weir__pb_node *n)
{
    bool scalar = weir__pb_is_scalar(e);

    if (scalar && weir__pb_is_named(e, "name"))
        return weir__pb_file_string(f, &f->text, e, &n->name);
    if (scalar && weir__pb_is_named(e, "op"))
        return weir__pb_file_word(f, &f->text, e, &n->op);
    if (scalar && weir__pb_is_named(e, "input"))
        return add_ref(f, &f->text, e, false);
    if (!scalar && weir__pb_is_named(e, "attr"))
        return read_attr(f, r, e->at);
    return scalar ? WEIR_OK : weir__pb_skip(r, NULL);
}

static weir_status read_node(struct weir__pb_file *f, struct weir__pb_reader *r, size_t at)
{
    struct weir__pb_node n = {.at = at, .refs = f->nrefs, .attrs = f->nattrs};
    struct weir__pb_event e;
    weir_status st;

    while (!(st = weir__pb_next(r, &e)) && e.kind != WEIR__PB_CLOSE)
        if ((st = read_node_field(f, r, &e, &n)))
            return st;
    if (st)
        return st;
    if (!n.name || !*n.name || *n.name == '^')
        return weir__pb_fail(&f->text, WEIR_EPARSE, at, "a node needs a name%s",
                             n.name && *n.name ? " that does not begin with '^'" : "");
    if (!n.op || !*n.op)
        return weir__pb_fail(&f->text, WEIR_EPARSE, at, "node '%.80s' has no op", n.name);
    n.nattrs = f->nattrs - n.attrs;
    if ((st = add_into_refs(f, &n)))
        return st;
    n.nrefs = f->nrefs - n.refs;
    if ((st = grow(f, &f->nodes, f->nnodes, &f->cap_nodes, sizeof *f->nodes)))
        return st;
    f->nodes[f->nnodes++] = n;
    return WEIR_OK;
}

/* Reads a top-level field: a node, or another field, which is skipped. */
static weir_status read_field(struct weir__pb_file *f, struct weir__pb_reader *r,
                              struct weir__pb_event *e)
{
    weir_status st = weir__pb_next(r, e);

    if (st || e->kind != WEIR__PB_OPEN)
        return st;
    return weir__pb_is_named(e, "node") ? read_node(f, r, e->at) : weir__pb_skip(r, NULL);
}

/* Brings more of the text that is needed from `at` on: one piece, or twice as much if the field at
 * `at` is longer than a piece. */
static weir_status bring_more(struct weir__pb_file *f, size_t at)
{
    struct weir__pb_text *t = &f->text;
    size_t whole = weir__pb_source_size(t->source), had = t->size - at;
    size_t want = t->size + (had > WEIR__PB_PIECE ? had : WEIR__PB_PIECE);
    weir_status st;

    want = want < whole ? want : whole;
    weir__pb_source_keep(t->source, at, want);
    if ((st = weir__pb_source_need(t->source, at, want)))
        return st;
    t->size = want;
    t->partial = want < whole;
    return WEIR_OK;
}

/* Reads field by field. A field that reaches the end of the loaded text, or does not parse yet, is
 * read again with more of the text. */
static weir_status parse(struct weir__pb_file *f)
{
    struct weir__pb_reader r;
    struct weir__pb_event e = {.kind = WEIR__PB_OPEN};
    weir_status st = WEIR_OK;

    weir__pb_reader_init(&r, &f->text);
    while (!st && e.kind != WEIR__PB_END) {
        size_t at = r.at;
        int nodes = f->nnodes, refs = f->nrefs, attrs = f->nattrs;

        st = read_field(f, &r, &e);
        if (!f->text.partial || (st && st != WEIR_EPARSE) || (!st && r.at < f->text.size))
            continue;
        f->nnodes = nodes;
        f->nrefs = refs;
        f->nattrs = attrs;
        weir__pb_reader_init(&r, &f->text);
        r.at = at;
        e.kind = WEIR__PB_OPEN;
        st = bring_more(f, at);
    }
    weir__pb_source_keep(f->text.source, 0, 0);
    if (st)
        weir__pb_file_fini(f);
    return st;
}

weir_status weir__pb_file_parse(struct weir__pb_file *f, const char *where, const char *data,
                                size_t size)
{
    *f = (struct weir__pb_file){.text = {.where = where, .data = data, .size = size}};
    if (size > UINT32_MAX)
        return weir__fail(WEIR_EPARSE, "%s is larger than 4 GiB, the most for a graph file", where);
    return parse(f);
}

weir_status weir__pb_file_parse_source(struct weir__pb_file *f, const char *where,
                                       struct weir__pb_source *source)
{
    *f = (struct weir__pb_file){.text = {.where = where,
                                         .data = weir__pb_source_data(source),
                                         .source = source,
                                         .partial = true}};
    return parse(f);
}
