/* Classifies one event of a profile: work of a device, and its engine; a wait; a record; or a call
 * of the host. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "trace/read/import.h"
#include "trace/record/kernel_names.h"

bool weir__import_has(const char *text, const char *word)
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

static bool has_any(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (weir__import_has(text, words[i]))
            return true;
    return false;
}

static bool is_any(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(text, words[i]))
            return true;
    return false;
}

static const char *task_type(const struct weir__event *e)
{
    const char *type = weir__event_text(e, "Task Type");

    return type ? type : weir__event_text(e, "Accelerator Core");
}

static weir_engine engine_of(const struct weir__event *e)
{
    static const char *const matrix[] = {"gemm", "matmul",    "cutlass", "xmma",
                                         "conv", "attention", "flash"};
    const char *type = task_type(e);

    if (weir__import_has(e->category, "memcpy") || weir__import_has(e->category, "memset") ||
        weir__import_has(e->name, "memcpy") || weir__import_has(e->name, "memset") ||
        weir__import_has(type, "sdma") || weir__import_has(type, "memcpy"))
        return WEIR_ENGINE_SDMA;
    if (type)
        return weir__import_has(type, "mix")      ? WEIR_ENGINE_MIX
               : weir__import_has(type, "vector") ? WEIR_ENGINE_VECTOR
               : weir__import_has(type, "cpu")    ? WEIR_ENGINE_HOST
               : weir__import_has(type, "core")   ? WEIR_ENGINE_CUBE
                                                  : WEIR_ENGINE_SDMA;
    /* A collective with a grid runs on cores. Without one its engine is unknown. */
    if (weir__trace_is_comm(e->name))
        return weir__event_find_arg(e, "grid") ? WEIR_ENGINE_VECTOR : WEIR_ENGINE_SDMA;
    return has_any(e->name, matrix, weir__countof(matrix)) ? WEIR_ENGINE_CUBE : WEIR_ENGINE_VECTOR;
}

/* A wait of a stream is no work: it means that the next operator waited for another stream. */
static enum weir__span_kind kind_of(const struct weir__event *e)
{
    const char *type = weir__event_text(e, "Task Type");

    if (weir__import_has(e->category, "cuda_sync"))
        return weir__import_has(e->name, "stream wait event") ? WEIR__SPAN_WAIT
                                                              : WEIR__SPAN_NOTHING;
    if (weir__import_has(e->name, "event_wait") || weir__import_has(e->name, "notify_wait") ||
        weir__import_has(type, "event_wait") || weir__import_has(type, "notify_wait"))
        return WEIR__SPAN_WAIT;
    if (weir__import_has(e->name, "event_record") || weir__import_has(e->name, "notify_record") ||
        weir__import_has(type, "event_record") || weir__import_has(type, "notify_record"))
        return WEIR__SPAN_RECORD;
    return WEIR__SPAN_WORK;
}

static bool is_device_work(const char *category)
{
    static const char *const known[] = {"kernel", "gpu_memcpy", "gpu_memset", "cuda_sync",
                                        "Kernel", "Memcpy",     "Memset"};

    return is_any(category, known, weir__countof(known));
}

/* True for spans that only enclose callees and do no work themselves. */
static bool is_caller(const char *category)
{
    static const char *const known[] = {"user_annotation", "gpu_user_annotation", "python_function",
                                        "overhead"};

    return is_any(category, known, weir__countof(known));
}

/* Returns the first positive number among the arguments `keys`, else 0. */
static uint64_t number(const struct weir__event *e, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        long double value = weir__event_number(e, keys[i], -1);

        if (value > 0 && value < 0x1p63L)
            return (uint64_t)value;
    }
    return 0;
}

static uint64_t call_of(const struct weir__event *e)
{
    static const char *const keys[] = {"correlation", "Correlation", "correlation_id",
                                       "connection_id"};

    return number(e, keys, weir__countof(keys));
}

static uint64_t event_of(const struct weir__event *e)
{
    static const char *const keys[] = {"Event Id",  "event_id",  "Event ID",
                                       "Notify Id", "notify_id", "Notify ID"};

    return number(e, keys, weir__countof(keys));
}

static void add_call(struct weir__json *j, struct weir__import *im, const struct weir__event *e,
                     int track)
{
    uint64_t id = call_of(e);
    enum weir__call_kind kind = weir__import_has(e->name, "streamwaitevent") ? WEIR__CALL_WAIT
                                : weir__import_has(e->name, "synchronize")   ? WEIR__CALL_SYNC
                                                                             : WEIR__CALL_OTHER;

    if (!id)
        return;
    if (!weir__grow(&im->calls, im->ncalls, &im->cap_calls, sizeof *im->calls))
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the calls of the trace");
    else
        im->calls[im->ncalls++] =
            (struct weir__import_call){id, track, weir__event_ns(e->ts), kind};
}

static uint32_t blocks_of(const struct weir__event *e)
{
    static const char *const keys[] = {"Block Dim", "Block Num", "grid"};
    uint64_t blocks = number(e, keys, weir__countof(keys));

    return !blocks ? 1 : blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
}

/* Reads the stream that is waited for, and the call that recorded the event. */
static void read_wait(struct weir__json *j, struct weir__import *im, const struct weir__event *e,
                      struct weir__import_span *s)
{
    static const char *const record[] = {"wait_on_cuda_event_record_corr_id"};

    if (weir__event_find_arg(e, "wait_on_stream")) {
        char tid[32];

        snprintf(tid, sizeof tid, "%.0Lf", weir__event_number(e, "wait_on_stream", -1));
        s->source = weir__import_find_track(j, im, e->pid, tid);
        s->before = number(e, record, 1);
    }
}

/* Stacks may be long, and each operator has one: keep only the frame that is shown. */
static const char *keep_frame(struct weir__json *j, struct weir__import *im,
                              const struct weir__event *e)
{
    const char *stack = weir__event_text(e, "Call stack"), *frame, *kept;
    size_t size;

    if (!stack || !(frame = weir__import_frame(stack, &size)))
        return NULL;
    if (!(kept = weir__trace_keep(&im->t->texts, frame, size)))
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the texts of the trace");
    return kept;
}

/* Builds a collective's name from its kernel's name and the profile's arguments, such as
 * "ncclDevKernel_AllReduce_group_3". The kernel's name alone is ambiguous: all groups of processes
 * share it, and in some libraries all collectives do. Collectives of the group of all processes
 * keep their kernels' names. */
static const char *keep_name(struct weir__json *j, struct weir__import *im,
                             const struct weir__event *e)
{
    const char *group = weir__event_text(e, "Process Group Name");
    const char *about = weir__event_text(e, "Process Group Description");
    const char *what = weir__event_text(e, "Collective name");
    struct weir__short_name name;
    char text[WEIR__SHORT_NAME + 1], mark[24] = "";
    bool own =
        group && *group && strcmp(group, "0") != 0 && !(about && !strcmp(about, "default_pg"));

    if (!what || !*what || (!own && weir__trace_is_comm(e->name)))
        return weir__import_keep(j, im, e->name);
    name = weir__shorten_name(e->name);
    if (own)
        snprintf(mark, sizeof mark, "_group_%.16s", group);
    if (weir__trace_is_comm(e->name))
        snprintf(text, sizeof text, "%.*s%s", (int)(WEIR__SHORT_NAME - strlen(mark)), name.text,
                 mark);
    else
        snprintf(text, sizeof text, "nccl_%.16s%s_%.10s", what, mark, name.text);
    return weir__import_keep(j, im, text);
}

void weir__import_add_span(struct weir__json *j, struct weir__import *im,
                           const struct weir__event *e, int track)
{
    static const char *const bytes[] = {"bytes"}, *const autograd[] = {"Sequence number"},
                             *const thread[] = {"Fwd thread id"};
    enum weir__span_kind kind = kind_of(e);
    bool marked = is_device_work(e->category);
    struct weir__import_span s;

    if (!strcmp(e->category, "cuda_runtime") || !strcmp(e->category, "cuda_driver"))
        add_call(j, im, e, track);
    /* The profiler's own span is neither work nor a caller. */
    if (kind == WEIR__SPAN_NOTHING || !strcmp(e->category, "Trace"))
        return;
    if (!weir__grow(&im->spans, im->nspans, &im->cap_spans, sizeof *im->spans)) {
        weir__json_fail(j, WEIR_ENOMEM, "out of host memory: reading the spans of the trace");
        return;
    }
    s = (struct weir__import_span){
        .name = keep_name(j, im, e),
        .track = track,
        .kind = kind,
        .engine = engine_of(e),
        .blocks = blocks_of(e),
        .bytes = number(e, bytes, 1),
        .from = weir__event_ns(e->ts),
        .to = weir__event_ns(e->ts + (e->dur > 0 ? e->dur : 0)),
        .source = WEIR__SPAN_ANY,
        .marked = marked,
        .caller = is_caller(e->category),
        .launch = call_of(e),
        .event = event_of(e),
        .frame = keep_frame(j, im, e),
        .autograd = number(e, autograd, 1),
        .backward = number(e, thread, 1) > 0,
    };
    if (kind == WEIR__SPAN_WAIT)
        read_wait(j, im, e, &s);
    if (marked && weir__event_find_arg(e, "device"))
        im->tracks[track].number = (int)fminl(weir__event_number(e, "device", -1), 1 << 20);
    im->spans[im->nspans++] = s;
}
