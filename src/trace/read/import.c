/* Imports profiles of other tools in Chrome's format: decides which events are work of a device,
 * and on which streams.
 *
 * Profilers mark device work in different ways. The best mark in the file decides: categories of
 * kernels and copies (PyTorch's profiler), a process called "Ascend Hardware" (Ascend's), threads
 * or thread ids called "stream ..." (exports of Nsight Systems). Without any of these, every span
 * counts as work, for the time in which it does not call another span.
 */
#include "trace/read/import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct weir__import *weir__import_new(weir_trace *t)
{
    struct weir__import *im = weir__calloc(1, sizeof *im);

    if (im) {
        im->t = t;
        im->rank = -1;
    }
    return im;
}

void weir__import_free(struct weir__import *im)
{
    weir__free(im->tracks);
    weir__free(im->slots);
    weir__free(im->spans);
    weir__free(im->calls);
    weir__free(im->devices);
    weir__free(im);
}

const char *weir__import_keep(struct weir__json *j, struct weir__import *im, const char *text)
{
    const char *copy = weir__trace_keep(&im->t->texts, text, strlen(text));

    if (!copy)
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the texts of the trace");
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

int weir__import_find_track(struct weir__json *j, struct weir__import *im, const char *pid,
                            const char *tid)
{
    int *slot;

    if ((2 * im->ntracks >= im->nslots && !grow_slots(im)) ||
        !weir__grow(&im->tracks, im->ntracks, &im->cap_tracks, sizeof *im->tracks)) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the tracks of the trace");
        return -1;
    }
    slot = slot_of(im, pid, tid);
    if (*slot < 0) {
        im->tracks[im->ntracks] = (struct weir__import_track){.pid = weir__import_keep(j, im, pid),
                                                              .tid = weir__import_keep(j, im, tid),
                                                              .number = -1,
                                                              .device = WEIR_TRACE_NONE,
                                                              .stream = WEIR_TRACE_NONE};
        *slot = im->ntracks++;
    }
    return *slot;
}

/* ---- events ---- */

static const char *keep_string(struct weir__json *j, struct weir__import *im)
{
    const char *text = weir__json_string(j);

    return weir__import_keep(j, im, text ? text : "");
}

static void name_track(struct weir__json *j, struct weir__import *im, const struct weir__event *e)
{
    const char *name = weir__event_text(e, "name");
    bool process = !strcmp(e->name, "process_name");
    int track;

    if (!name || (!process && strcmp(e->name, "thread_name")))
        return;
    /* A process's name is stored under a thread id that no event has. */
    if ((track = weir__import_find_track(j, im, e->pid, process ? "\1process" : e->tid)) < 0)
        return;
    *(process ? &im->tracks[track].process : &im->tracks[track].thread) =
        weir__import_keep(j, im, name);
}

void weir__import_event(struct weir__json *j, struct weir__import *im, const struct weir__event *e)
{
    int track;

    if (e->phase == 'M')
        name_track(j, im, e);
    if (e->phase != 'X' || !e->has_dur ||
        (track = weir__import_find_track(j, im, e->pid, e->tid)) < 0)
        return;
    weir__import_add_span(j, im, e, track);
}

void weir__import_devices(struct weir__json *j, struct weir__import *im)
{
    char key[32];

    for (weir__json_array(j); weir__json_item(j);) {
        struct weir__import_device d = {.number = -1, .model = ""};

        if (weir__json_peek(j) != WEIR__JSON_OBJECT) {
            weir__json_skip(j);
            continue;
        }
        for (weir__json_object(j); weir__json_key(j, key, sizeof key);) {
            bool is_number = weir__json_peek(j) == WEIR__JSON_NUMBER;

            if (!strcmp(key, "id") && is_number)
                d.number = (int)fminl(weir__json_number(j), 1 << 20);
            else if (!strcmp(key, "numSms") && is_number)
                d.cores = (int)fmaxl(0, fminl(weir__json_number(j), 1024));
            else if (!strcmp(key, "name") && weir__json_peek(j) == WEIR__JSON_STRING)
                d.model = keep_string(j, im);
            else
                weir__json_skip(j);
        }
        if (!weir__grow(&im->devices, im->ndevices, &im->cap_devices, sizeof d))
            weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the devices of the trace");
        else
            im->devices[im->ndevices++] = d;
    }
}

void weir__import_rank(struct weir__json *j, struct weir__import *im)
{
    char key[32];

    if (weir__json_peek(j) != WEIR__JSON_OBJECT) {
        weir__json_skip(j);
        return;
    }
    for (weir__json_object(j); weir__json_key(j, key, sizeof key);)
        if (!strcmp(key, "rank") && weir__json_peek(j) == WEIR__JSON_NUMBER)
            im->rank = (int)fmaxl(-1, fminl(weir__json_number(j), 1 << 20));
        else
            weir__json_skip(j);
}

/* ---- choosing ---- */

static void mark_tracks(struct weir__import *im)
{
    for (int i = 0; i < im->ntracks; i++) {
        struct weir__import_track *t = &im->tracks[i];
        int process = *slot_of(im, t->pid, "\1process");

        if (process >= 0)
            t->process = im->tracks[process].process;
        if (weir__import_has(t->process, "ascend hardware"))
            t->mark = WEIR__MARK_ASCEND;
        else if (weir__import_has(t->thread, "stream") || weir__import_has(t->tid, "stream"))
            t->mark = WEIR__MARK_STREAM;
    }
    for (int i = 0; i < im->nspans; i++) {
        struct weir__import_span *s = &im->spans[i];

        if (s->marked)
            im->tracks[s->track].mark = WEIR__MARK_CATEGORY;
        if (im->tracks[s->track].mark > im->best)
            im->best = im->tracks[s->track].mark;
    }
}

static bool is_taken(const struct weir__import *im, const struct weir__import_span *s)
{
    return im->tracks[s->track].mark == im->best && (im->best != WEIR__MARK_CATEGORY || s->marked);
}

static bool add_device(struct weir__import *im, struct weir__import_track *t)
{
    weir_trace *to = im->t;
    int process = *slot_of(im, t->pid, "\1process");
    const char *name = t->process ? t->process : t->pid;

    /* The process's own track stores its device; without that, any other track of it does. */
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
    to->devices[to->ndevices] = (weir_trace_device){
        .name = name,
        .model = "",
        .real_time = true,
        .rank = im->rank >= 0 ? im->rank + to->ndevices : to->ndevices,
    };
    for (int i = 0; i < im->ndevices; i++)
        if (im->devices[i].number == t->number) {
            to->devices[to->ndevices].model = im->devices[i].model;
            to->devices[to->ndevices].cores.cube = im->devices[i].cores;
            to->devices[to->ndevices].cores.vector = im->devices[i].cores;
        }
    to->ndevices++;
    return true;
}

static bool add_stream(struct weir__import *im, struct weir__import_track *t)
{
    weir_trace *to = im->t;
    struct weir__text name = {0};
    bool named = t->thread && *t->thread;

    if (t->stream != WEIR_TRACE_NONE)
        return true;
    if (!add_device(im, t) ||
        !weir__grow(&to->streams, to->nstreams, &to->cap_streams, sizeof *to->streams))
        return false;
    weir__text_add(&name, "%s%s", named || weir__import_has(t->tid, "stream") ? "" : "stream ",
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
    if (weir__import_callers(im)) {
        j->bad = true;
        return;
    }
    for (int i = 0; i < im->nspans; i++)
        if (is_taken(im, &im->spans[i])) {
            struct weir__import_track *t = &im->tracks[im->spans[i].track];

            if (!add_stream(im, t)) {
                weir__json_fail(j, WEIR_ENOMEM,
                                "out of host memory: reading the streams of the trace");
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
    if (weir__import_calls(im, n) || weir__import_order(im->t, im->spans, n))
        j->bad = true;
}
