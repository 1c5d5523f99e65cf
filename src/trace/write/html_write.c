/* Writes the timeline page: one file with its style, its script and one or two traces as data. The
 * data are columns of numbers in JSON; times are stored as differences to keep them short. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "trace/write/analyse.h"
#include "trace/write/out.h"
#include "trace/write/page.h"

/* ---- names by number ---- */

struct names {
    const char **texts;
    int n, cap;
    int *slots; /* -1 free */
    size_t nslots;
};

static uint64_t hash(const char *text)
{
    uint64_t h = weir__hash_text(text);

    return h ^ h >> 32;
}

static int *slot_of(const struct names *names, const char *text)
{
    size_t i = hash(text) & (names->nslots - 1);

    while (names->slots[i] >= 0 && strcmp(names->texts[names->slots[i]], text))
        i = (i + 1) & (names->nslots - 1);
    return &names->slots[i];
}

static bool grow(struct names *names)
{
    int *old = names->slots;

    names->nslots = names->nslots ? 2 * names->nslots : 256;
    if (!(names->slots = weir__malloc(names->nslots * sizeof *names->slots))) {
        names->slots = old;
        return false;
    }
    memset(names->slots, -1, names->nslots * sizeof *names->slots);
    for (int i = 0; i < names->n; i++)
        *slot_of(names, names->texts[i]) = i;
    weir__free(old);
    return true;
}

/* Returns the text's number, a new one if needed; -1 when out of memory. */
static int number_of(struct names *names, const char *text)
{
    int *slot;

    if ((2 * (size_t)names->n >= names->nslots && !grow(names)) ||
        !weir__grow(&names->texts, names->n, &names->cap, sizeof *names->texts))
        return -1;
    slot = slot_of(names, text);
    if (*slot < 0) {
        names->texts[names->n] = text;
        *slot = names->n++;
    }
    return *slot;
}

static void names_fini(struct names *names)
{
    weir__free(names->texts);
    weir__free(names->slots);
}

/* ---- columns ---- */

struct column {
    FILE *out;
    bool filled;
};

static struct column begin(FILE *out, const char *key, bool first)
{
    fprintf(out, "%s\"%s\":[", first ? "" : ",\n", key);
    return (struct column){out, false};
}

static void put(struct column *c, int64_t value)
{
    fprintf(c->out, "%s%" PRId64, c->filled ? "," : "", value);
    c->filled = true;
}

static void end(struct column *c)
{
    fputc(']', c->out);
}

/* Writes one column: `value`, which may use i, for each index i below n. */
#define COLUMN(out, key, first, n, value)               \
    do {                                                \
        struct column column_ = begin(out, key, first); \
        for (int i = 0; i < (n); i++)                   \
            put(&column_, (int64_t)(value));            \
        end(&column_);                                  \
    } while (0)

enum text { NAME, SCOPE, SOURCE, TEXTS };

static const char *text_of(const weir_trace_op *op, enum text which)
{
    return which == NAME ? op->name : which == SCOPE ? op->scope : op->source;
}

static weir_status name_column(FILE *out, const char *key, const weir_trace *t, enum text which,
                               struct names *names)
{
    struct column c = begin(out, key, which == NAME);

    for (int i = 0; i < t->nops; i++) {
        int number = number_of(&names[which], text_of(&t->ops[i], which));

        if (number < 0)
            return weir__fail_nomem("allocating the names of a trace");
        put(&c, number);
    }
    end(&c);
    return WEIR_OK;
}

static void name_list(FILE *out, const char *key, const struct names *names)
{
    fprintf(out, ",\n\"%s\":[", key);
    for (int i = 0; i < names->n; i++) {
        fputs(i ? "," : "", out);
        weir__json_quote(out, names->texts[i]);
    }
    fputs("]", out);
}

static weir_status write_ops(FILE *out, const weir_trace *t, struct names *names)
{
    const weir_trace_op *ops = t->ops;
    struct column failed;
    weir_status st;

    fputs(",\n\"ops\":{", out);
    if ((st = name_column(out, "name", t, NAME, names)) ||
        (st = name_column(out, "scope", t, SCOPE, names)) ||
        (st = name_column(out, "source", t, SOURCE, names)))
        return st;
    COLUMN(out, "stream", false, t->nops, ops[i].stream);
    COLUMN(out, "seq", false, t->nops, ops[i].seq);
    COLUMN(out, "engine", false, t->nops, ops[i].engine);
    COLUMN(out, "blocks", false, t->nops, ops[i].blocks);
    COLUMN(out, "cores", false, t->nops, ops[i].cores);
    COLUMN(out, "bytes", false, t->nops, ops[i].bytes);
    COLUMN(out, "start", false, t->nops, ops[i].started_ns - (i ? ops[i - 1].started_ns : 0));
    COLUMN(out, "dur", false, t->nops, ops[i].ended_ns - ops[i].started_ns);
    COLUMN(out, "wait", false, t->nops, ops[i].started_ns - ops[i].ready_ns);
    COLUMN(out, "queue", false, t->nops, ops[i].ready_ns - ops[i].queued_ns);
    failed = begin(out, "failed", false);
    for (int i = 0; i < t->nops; i++)
        if (ops[i].failed)
            put(&failed, i);
    end(&failed);
    fputs("}", out);
    return WEIR_OK;
}

static uint32_t most_cores(const weir_trace *t)
{
    uint32_t most = 1;

    for (int i = 0; i < t->nparts; i++)
        most = t->parts[i].ncores > most ? t->parts[i].ncores : most;
    return most;
}

static void write_parts(FILE *out, const weir_trace *t)
{
    const weir_trace_part *p = t->parts;
    uint32_t most = most_cores(t);

    fputs(",\n\"parts\":{", out);
    COLUMN(out, "op", true, t->nparts, p[i].op);
    for (uint32_t c = 0; c < most; c++) {
        const char *const keys[] = {"core0", "core1", "core2"};

        COLUMN(out, keys[c], false, t->nparts, p[i].ncores > c ? p[i].cores[c] : -1);
    }
    COLUMN(out, "start", false, t->nparts, p[i].started_ns - (i ? p[i - 1].started_ns : 0));
    COLUMN(out, "dur", false, t->nparts, p[i].ended_ns - p[i].started_ns);
    fputs("}", out);
}

static void write_waits(FILE *out, const weir_trace *t)
{
    const weir_trace_wait *w = t->waits;

    fputs(",\n\"waits\":{", out);
    COLUMN(out, "op", true, t->nwaits, w[i].op == WEIR_TRACE_NONE ? -1 : (int64_t)w[i].op);
    COLUMN(out, "source", false, t->nwaits,
           w[i].source_op == WEIR_TRACE_NONE ? -1 : (int64_t)w[i].source_op);
    COLUMN(out, "reached", false, t->nwaits, w[i].reached_ns);
    COLUMN(out, "passed", false, t->nwaits, w[i].passed_ns);
    fputs("}", out);
}

static void write_memory(FILE *out, const weir_trace *t)
{
    const weir_trace_memory *m = t->memory;

    fputs(",\n\"memory\":{", out);
    COLUMN(out, "device", true, t->nmemory, m[i].device);
    COLUMN(out, "time", false, t->nmemory, m[i].time_ns - (i ? m[i - 1].time_ns : 0));
    COLUMN(out, "allocated", false, t->nmemory, m[i].allocated);
    fputs("}", out);
}

static weir_status write_path(FILE *out, const weir_trace *t)
{
    struct weir__trace_path path;
    weir_status st = weir__trace_find_path(t, &path);

    if (st)
        return st;
    fputs(",\n\"path\":{", out);
    COLUMN(out, "op", true, path.n, path.ops[i]);
    COLUMN(out, "why", false, path.n, path.why[i]);
    fputs("}", out);
    weir__trace_path_fini(&path);
    return WEIR_OK;
}

static void write_tables(FILE *out, const weir_trace *t)
{
    fputs(",\n\"devices\":[", out);
    for (int i = 0; i < t->ndevices; i++) {
        const weir_trace_device *d = &t->devices[i];

        fprintf(out, "%s{\"name\":", i ? "," : "");
        weir__json_quote(out, d->name);
        fputs(",\"model\":", out);
        weir__json_quote(out, d->model ? d->model : "");
        fprintf(out, ",\"cube\":%d,\"vector\":%d,\"split\":%s,\"rank\":%d}", d->cores.cube,
                d->cores.vector, d->split_cores ? "true" : "false", d->rank);
    }
    fputs("],\n\"streams\":[", out);
    for (int i = 0; i < t->nstreams; i++) {
        fprintf(out, "%s{\"name\":", i ? "," : "");
        weir__json_quote(out, t->streams[i].name);
        fprintf(out, ",\"device\":%" PRIu32 ",\"priority\":%d}", t->streams[i].device,
                t->streams[i].priority);
    }
    fputs("]", out);
}

static weir_status write_trace(FILE *out, const weir_trace *t, const char *title)
{
    struct names names[TEXTS] = {0};
    weir_status st;

    fputs("<script type=\"application/json\">{\"title\":", out);
    weir__json_quote(out, title);
    fprintf(out, ",\"dropped\":%" PRIu64, t->dropped);
    write_tables(out, t);
    if (!(st = write_ops(out, t, names)) && !(st = write_path(out, t))) {
        name_list(out, "names", &names[NAME]);
        name_list(out, "scopes", &names[SCOPE]);
        name_list(out, "sources", &names[SOURCE]);
        write_parts(out, t);
        write_waits(out, t);
        write_memory(out, t);
    }
    fputs("}</script>\n", out);
    for (int i = 0; i < TEXTS; i++)
        names_fini(&names[i]);
    return st;
}

/* ---- the page ---- */

struct page {
    const weir_trace *const *traces;
    const char *const *titles;
    size_t ntraces;
};

static void copy(FILE *out, struct weir__page_file f)
{
    fwrite(f.start, 1, (size_t)(f.end - f.start), out);
}

/* Copies the template up to the marker and moves f->start past the marker. */
static void copy_until(FILE *out, struct weir__page_file *f, const char *marker)
{
    size_t size = strlen(marker);
    const char *at = f->start;

    while (at + size <= f->end && memcmp(at, marker, size))
        at++;
    fwrite(f->start, 1, (size_t)(at - f->start), out);
    f->start = at + size < f->end ? at + size : f->end;
}

static weir_status write_page(FILE *out, const void *user)
{
    const struct page *p = user;
    struct weir__page_file html = weir__page_html();
    weir_status st = WEIR_OK;

    copy_until(out, &html, "<!--style-->");
    copy(out, weir__page_css());
    copy_until(out, &html, "<!--data-->");
    for (size_t i = 0; i < p->ntraces && !st; i++)
        st = write_trace(out, p->traces[i], p->titles[i]);
    copy_until(out, &html, "<!--script-->");
    fputs("\"use strict\";\n(() => {\n", out);
    for (int i = 0; i < WEIR__PAGE_SCRIPTS; i++)
        copy(out, weir__page_script(i));
    fputs("})();\n", out);
    copy(out, html);
    return st;
}

weir_status weir_trace_write_html(const weir_trace *const *traces, const char *const *titles,
                                  size_t ntraces, const char *path)
{
    static const char *const plain[] = {"weir timeline", "weir timeline"};

    WEIR__NEED(traces, "traces");
    WEIR__NEED(path, "path");
    if (ntraces < 1 || ntraces > 2)
        return weir__fail(WEIR_EINVAL, "a page shows one trace or compares two, not %zu", ntraces);
    return weir__file_write(path, write_page,
                            &(struct page){traces, titles ? titles : plain, ntraces});
}
