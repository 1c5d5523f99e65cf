/* Profiles of others in Chrome's format: which of their events are work of a device, on
 * which streams. What waited for what is guessed in import_order.c.
 *
 * Profilers mark device work in different ways, so the best mark that the file has decides:
 * categories of kernels and copies (PyTorch's profiler), a process called "Ascend Hardware"
 * (Ascend's), threads or thread ids called "stream ..." (exports of Nsight Systems), and
 * without any of these every span there is.
 */
#include "trace/read/import.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum mark { MARK_NONE, MARK_STREAM, MARK_ASCEND, MARK_CATEGORY };

struct track {
    const char *pid, *tid;
    const char *process, *thread; /* names, NULL if not given */
    enum mark mark;
    uint32_t device, stream; /* WEIR_TRACE_NONE until something is taken from it */
};

struct weir__import {
    weir_trace *t;
    struct track *tracks;
    int ntracks, cap_tracks;
    int *slots; /* of tracks by hash, -1 free */
    int nslots;
    struct weir__import_span *spans;
    int nspans, cap_spans;
    enum mark best;
};

struct weir__import *weir__import_new(weir_trace *t)
{
    struct weir__import *im = weir__calloc(1, sizeof *im);

    if (im)
        im->t = t;
    return im;
}

void weir__import_free(struct weir__import *im)
{
    weir__free(im->tracks);
    weir__free(im->slots);
    weir__free(im->spans);
    weir__free(im);
}

static const char *keep(struct weir__json *j, struct weir__import *im, const char *text)
{
    const char *copy = weir__trace_keep(&im->t->texts, text, strlen(text));

    if (!copy)
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: the texts of the trace");
    return copy ? copy : "";
}

/* ---- tracks ---- */

static uint32_t hash(const char *pid, const char *tid)
{
    uint32_t h = 2166136261u;

    for (; *pid; pid++)
        h = (h ^ (unsigned char)*pid) * 16777619u;
    h = (h ^ 1) * 16777619u;
    for (; *tid; tid++)
        h = (h ^ (unsigned char)*tid) * 16777619u;
    return h;
}

static int *slot_of(const struct weir__import *im, const char *pid, const char *tid)
{
    uint32_t mask = (uint32_t)im->nslots - 1, i = hash(pid, tid) & mask;

    while (im->slots[i] >= 0 &&
           (strcmp(im->tracks[im->slots[i]].pid, pid) || strcmp(im->tracks[im->slots[i]].tid, tid)))
        i = (i + 1) & mask;
    return &im->slots[i];
}

static bool grow_slots(struct weir__import *im)
{
    int n = im->nslots ? 2 * im->nslots : 64;
    int *slots = weir__malloc((size_t)n * sizeof *slots);

    if (!slots)
        return false;
    weir__free(im->slots);
    im->slots = slots;
    im->nslots = n;
    memset(slots, -1, (size_t)n * sizeof *slots);
    for (int i = 0; i < im->ntracks; i++)
        *slot_of(im, im->tracks[i].pid, im->tracks[i].tid) = i;
    return true;
}

/* An index, since tracks move; -1 on an error. */
static int track_of(struct weir__json *j, struct weir__import *im, const char *pid, const char *tid)
{
    int *slot;

    if ((2 * im->ntracks >= im->nslots && !grow_slots(im)) ||
        !weir__grow(&im->tracks, im->ntracks, &im->cap_tracks, sizeof *im->tracks)) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: the tracks of the trace");
        return -1;
    }
    slot = slot_of(im, pid, tid);
    if (*slot < 0) {
        im->tracks[im->ntracks] = (struct track){.pid = keep(j, im, pid),
                                                 .tid = keep(j, im, tid),
                                                 .device = WEIR_TRACE_NONE,
                                                 .stream = WEIR_TRACE_NONE};
        *slot = im->ntracks++;
    }
    return *slot;
}

static bool has_word(const char *text, const char *word)
{
    size_t size = strlen(word);

    for (; text && *text; text++) {
        size_t i = 0;

        while (i < size && tolower((unsigned char)text[i]) == word[i])
            i++;
        if (i == size)
            return true;
    }
    return false;
}

/* ---- events ---- */

static bool has_any(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (has_word(text, words[i]))
            return true;
    return false;
}

static weir_engine engine_of(const struct weir__event *e)
{
    static const char *const moves[] = {"memcpy",     "memset",        "nccl",      "hccl",
                                        "hcom",       "sdma",          "allreduce", "allgather",
                                        "all_reduce", "reducescatter", "all_gather"};
    static const char *const matrix[] = {"gemm", "matmul",    "cutlass", "xmma",
                                         "conv", "attention", "flash"};
    const char *type = weir__event_text(e, "Task Type");

    if (!type)
        type = weir__event_text(e, "Accelerator Core");
    if (has_word(e->category, "memcpy") || has_word(e->category, "memset") ||
        has_any(e->name, moves, weir__countof(moves)) || has_word(type, "sdma") ||
        has_word(type, "memcpy"))
        return WEIR_ENGINE_SDMA;
    if (type)
        return has_word(type, "mix")      ? WEIR_ENGINE_MIX
               : has_word(type, "vector") ? WEIR_ENGINE_VECTOR
               : has_word(type, "cpu")    ? WEIR_ENGINE_HOST
               : has_word(type, "core")   ? WEIR_ENGINE_CUBE
                                          : WEIR_ENGINE_SDMA;
    return has_any(e->name, matrix, weir__countof(matrix)) ? WEIR_ENGINE_CUBE : WEIR_ENGINE_VECTOR;
}

/* A wait of a stream is no work; it says that the next operator waited for another stream. */
static enum weir__span_kind kind_of(const struct weir__event *e)
{
    const char *type = weir__event_text(e, "Task Type");

    if (has_word(e->category, "cuda_sync"))
        return has_word(e->name, "stream wait event") ? WEIR__SPAN_WAIT : WEIR__SPAN_NOTHING;
    if (has_word(e->name, "event_wait") || has_word(e->name, "notify_wait") ||
        has_word(type, "event_wait") || has_word(type, "notify_wait"))
        return WEIR__SPAN_WAIT;
    if (has_word(e->name, "event_record") || has_word(e->name, "notify_record") ||
        has_word(type, "event_record") || has_word(type, "notify_record"))
        return WEIR__SPAN_NOTHING;
    return WEIR__SPAN_WORK;
}

static bool is_device_work(const char *category)
{
    static const char *const known[] = {"kernel", "gpu_memcpy", "gpu_memset", "cuda_sync",
                                        "Kernel", "Memcpy",     "Memset"};

    for (size_t i = 0; i < weir__countof(known); i++)
        if (!strcmp(category, known[i]))
            return true;
    return false;
}

static void add_span(struct weir__json *j, struct weir__import *im, const struct weir__event *e,
                     int track)
{
    enum weir__span_kind kind = kind_of(e);
    long double blocks = weir__event_number(e, "Block Dim", weir__event_number(e, "Block Num", 1));
    long double bytes = weir__event_number(e, "bytes", 0);

    if (kind == WEIR__SPAN_NOTHING)
        return;
    if (!weir__grow(&im->spans, im->nspans, &im->cap_spans, sizeof *im->spans)) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: the spans of the trace");
        return;
    }
    im->spans[im->nspans++] = (struct weir__import_span){
        .name = keep(j, im, e->name),
        .track = track,
        .kind = kind,
        .engine = engine_of(e),
        .blocks = blocks >= 1 && blocks <= 65535 ? (uint32_t)blocks : 1,
        .bytes = bytes >= 1 && bytes < 1e18L ? (uint64_t)bytes : 0,
        .from = weir__event_ns(e->ts),
        .to = weir__event_ns(e->ts + (e->dur > 0 ? e->dur : 0)),
        .source = WEIR__SPAN_ANY,
        .marked = is_device_work(e->category),
    };
    if (kind == WEIR__SPAN_WAIT && weir__event_find_arg(e, "wait_on_stream")) {
        char tid[32];

        snprintf(tid, sizeof tid, "%.0Lf", weir__event_number(e, "wait_on_stream", -1));
        im->spans[im->nspans - 1].source = track_of(j, im, e->pid, tid);
    }
}

static void name_track(struct weir__json *j, struct weir__import *im, const struct weir__event *e)
{
    const char *name = weir__event_text(e, "name");
    bool process = !strcmp(e->name, "process_name");
    int track;

    if (!name || (!process && strcmp(e->name, "thread_name")))
        return;
    /* A process's name is kept with a thread that no event has. */
    if ((track = track_of(j, im, e->pid, process ? "\1process" : e->tid)) < 0)
        return;
    *(process ? &im->tracks[track].process : &im->tracks[track].thread) = keep(j, im, name);
}

void weir__import_event(struct weir__json *j, struct weir__import *im, const struct weir__event *e)
{
    int track;

    if (e->phase == 'M')
        name_track(j, im, e);
    if (e->phase != 'X' || !e->has_dur || (track = track_of(j, im, e->pid, e->tid)) < 0)
        return;
    add_span(j, im, e, track);
}

/* ---- choosing ---- */

static void mark_tracks(struct weir__import *im)
{
    for (int i = 0; i < im->ntracks; i++) {
        struct track *t = &im->tracks[i];
        int process = *slot_of(im, t->pid, "\1process");

        if (process >= 0)
            t->process = im->tracks[process].process;
        if (has_word(t->process, "ascend hardware"))
            t->mark = MARK_ASCEND;
        else if (has_word(t->thread, "stream") || has_word(t->tid, "stream"))
            t->mark = MARK_STREAM;
    }
    for (int i = 0; i < im->nspans; i++) {
        struct weir__import_span *s = &im->spans[i];

        if (s->marked)
            im->tracks[s->track].mark = MARK_CATEGORY;
        if (im->tracks[s->track].mark > im->best)
            im->best = im->tracks[s->track].mark;
    }
}

static bool is_taken(const struct weir__import *im, const struct weir__import_span *s)
{
    return im->tracks[s->track].mark == im->best && (im->best != MARK_CATEGORY || s->marked);
}

static bool add_device(struct weir__import *im, struct track *t)
{
    weir_trace *to = im->t;
    int process = *slot_of(im, t->pid, "\1process");
    const char *name = t->process ? t->process : t->pid;

    /* Any track of the process knows its device; the process's own stands for all. */
    if (process >= 0 && im->tracks[process].device != WEIR_TRACE_NONE) {
        t->device = im->tracks[process].device;
        return true;
    }
    for (int i = 0; process < 0 && i < im->ntracks; i++)
        if (im->tracks[i].device != WEIR_TRACE_NONE && !strcmp(im->tracks[i].pid, t->pid)) {
            t->device = im->tracks[i].device;
            return true;
        }
    if (!weir__grow(&to->devices, to->ndevices, &to->cap_devices, sizeof *to->devices))
        return false;
    t->device = (uint32_t)to->ndevices;
    if (process >= 0)
        im->tracks[process].device = t->device;
    to->devices[to->ndevices] =
        (weir_trace_device){.name = name, .model = "", .real_time = true, .rank = to->ndevices};
    to->ndevices++;
    return true;
}

static bool add_stream(struct weir__import *im, struct track *t)
{
    weir_trace *to = im->t;
    struct weir__text name = {0};
    bool named = t->thread && *t->thread;

    if (t->stream != WEIR_TRACE_NONE)
        return true;
    if (!add_device(im, t) ||
        !weir__grow(&to->streams, to->nstreams, &to->cap_streams, sizeof *to->streams))
        return false;
    weir__text_add(&name, "%s%s", named || has_word(t->tid, "stream") ? "" : "stream ",
                   named ? t->thread : t->tid);
    while (name.size && name.data[name.size - 1] == ' ')
        name.data[--name.size] = '\0';
    t->stream = (uint32_t)to->nstreams;
    to->streams[to->nstreams++] = (weir_trace_stream){
        .name = name.data ? weir__trace_keep(&to->texts, name.data, name.size) : NULL,
        .device = t->device};
    weir__text_free(&name);
    return to->streams[t->stream].name != NULL;
}

void weir__import_finish(struct weir__json *j, struct weir__import *im)
{
    int n = 0;

    if (j->bad)
        return;
    if (!im->nspans) {
        weir__json_fail(j, WEIR_EPARSE, "the trace has no span (\"ph\":\"X\" with \"dur\")");
        return;
    }
    mark_tracks(im);
    for (int i = 0; i < im->nspans; i++)
        if (is_taken(im, &im->spans[i])) {
            struct track *t = &im->tracks[im->spans[i].track];

            if (!add_stream(im, t)) {
                weir__json_fail(j, WEIR_ENOMEM, "out of host memory: the streams of the trace");
                return;
            }
            im->spans[n++] = im->spans[i];
        }
    for (int i = 0; i < n; i++) {
        struct weir__import_span *s = &im->spans[i];

        s->device = im->tracks[s->track].device;
        s->stream = im->tracks[s->track].stream;
        if (s->source >= 0)
            s->source = (int)im->tracks[s->source].stream; /* NONE is WEIR__SPAN_ANY */
    }
    if (weir__import_order(im->t, im->spans, n))
        j->bad = true;
}
