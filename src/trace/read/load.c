#include "trace/read/load.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "trace/read/unpack.h"

static void read_events(struct weir__json *j, weir_trace *t, struct weir__import *im)
{
    const size_t often = 1 << 12;
    struct weir__event e;
    size_t n = 0;

    for (weir__json_array(j); weir__json_item(j);) {
        if (weir__json_peek(j) != WEIR__JSON_OBJECT) { /* some files end the list with null */
            weir__json_skip(j);
            continue;
        }
        if (++n % often == 0)
            weir__progress_report("reading events",
                                  (double)(j->at - j->start) / (double)(j->end - j->start));
        if (!weir__event_read(j, &e))
            return;
        if (im)
            weir__import_event(j, im, &e);
        else
            weir__load_event(j, t, &e);
    }
}

static void read_document(struct weir__json *j, weir_trace *t, struct weir__import *im)
{
    bool ours = false, events = false;
    char key[32];

    if (weir__json_peek(j) != WEIR__JSON_ARRAY && weir__json_peek(j) != WEIR__JSON_OBJECT)
        weir__json_fail(j, WEIR_EPARSE, "not a trace: expected JSON, which begins with { or [");
    if (weir__json_peek(j) == WEIR__JSON_ARRAY) {
        read_events(j, t, im);
        weir__json_end(j);
        weir__import_finish(j, im);
        return;
    }
    for (weir__json_object(j); weir__json_key(j, key, sizeof key);) {
        if (!strcmp(key, "weir") && !events) {
            weir__load_description(j, t);
            ours = true;
        } else if (!strcmp(key, "traceEvents")) {
            read_events(j, t, ours ? NULL : im);
            events = true;
        } else if (!strcmp(key, "deviceProperties") && !ours) {
            weir__import_devices(j, im);
        } else if (!strcmp(key, "distributedInfo") && !ours) {
            weir__import_rank(j, im);
        } else {
            weir__json_skip(j);
        }
    }
    weir__json_end(j);
    if (!events)
        weir__json_fail(j, WEIR_EPARSE, "not a trace in Chrome's format: it has no traceEvents");
    if (ours)
        weir__load_finish(j, t);
    else
        weir__import_finish(j, im);
}

static weir_status parse_text(const char *text, size_t size, const char *path, weir_trace **out)
{
    struct weir__import *im;
    struct weir__json j;
    weir_trace *t;

    if (!(t = weir__calloc(1, sizeof *t)))
        return weir__fail_nomem("recording the trace of %s", path);
    weir__allocator_hold(1);
    if (!(im = weir__import_new(t))) {
        weir_trace_free(t);
        return weir__fail_nomem("recording the trace of %s", path);
    }
    weir__json_init(&j, path, text, size);
    read_document(&j, t, im);
    weir__json_fini(&j);
    weir__import_free(im);
    if (j.bad) {
        weir_trace_free(t);
        return weir__last_status();
    }
    *out = t;
    return WEIR_OK;
}

weir_status weir_trace_parse(const char *text, size_t size, const char *path, weir_trace **out)
{
    WEIR__NEED(text, "text");
    WEIR__NEED(out, "out");

    char *unpacked;
    weir_status st;

    *out = NULL;
    if (!(st = weir__trace_unpack(path, text, size, &unpacked, &size))) {
        st = parse_text(unpacked ? unpacked : text, size, path, out);
        weir__free(unpacked);
    }
    return st;
}

weir_status weir_trace_load(const char *path, weir_trace **out)
{
    WEIR__NEED(path, "path");
    WEIR__NEED(out, "out");

    char *data;
    size_t size;
    weir_status st = weir__file_read(path, SIZE_MAX, "trace", &data, &size);

    *out = NULL;
    if (!st)
        st = weir_trace_parse(data, size, path, out);
    weir__free(data);
    return st;
}
