/* Shows memory that the host frees while another stream still reads it.
 *
 * The reader waits at a gate that the host opens at the end. So everything that the pool does
 * before happens while the bytes are in use. */
#include "demo/demo.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "term.h"

enum { COUNT = 1 << 20, GATE_SECONDS = 20 };

struct reader_args {
    atomic_bool *gate;
    const weir_device *dev;
    const float *from;
    float *to;
};

static weir_status read_slowly(const void *args, const weir_block *block)
{
    const struct reader_args *a = args;
    uint64_t end = weir_device_now(a->dev) + GATE_SECONDS * UINT64_C(1000000000);

    (void)block;
    while (!atomic_load_explicit(a->gate, memory_order_acquire)) {
        if (weir_device_now(a->dev) > end)
            return WEIR_ETIMEDOUT;
        sched_yield();
    }
    for (size_t i = 0; i < COUNT; i++)
        a->to[i] = a->from[i];
    return WEIR_OK;
}

/* The state of the pool after a step. */
struct step {
    const char *text;
    const void *address; /* of the tensor that the step created; NULL if none */
    weir_memory_stats stats;
};

struct scenario {
    weir_device *dev;
    weir_stream *first, *second;
    atomic_bool gate;
    struct step steps[8];
    int nsteps;
};

static weir_tensor *take_step(struct scenario *s, const char *text, weir_tensor *tensor)
{
    struct step *step = &s->steps[s->nsteps++];

    *step = (struct step){text, tensor ? weir_tensor_data(tensor) : NULL, {0}};
    weir_memory_get_stats(s->dev, &step->stats, sizeof(step->stats));
    return tensor;
}

static weir_tensor *filled(weir_stream *stream, double value)
{
    weir_tensor *t;

    demo_must(weir_stream_set_current(stream));
    demo_must(weir_tensor_empty(stream, WEIR_F32, 1, (int64_t[]){COUNT}, &t));
    demo_must(weir_fill(t, value));
    return t;
}

static bool all_are(weir_tensor *t, float value)
{
    const float *x = weir_tensor_data(t);
    size_t right = 0;

    for (size_t i = 0; i < COUNT; i++)
        right += x[i] == value;
    return right == COUNT;
}

static void queue_reader(struct scenario *s, weir_tensor *from, weir_tensor *to)
{
    struct reader_args args = {&s->gate, s->dev, weir_tensor_data(from), weir_tensor_data(to)};
    weir_launch launch = {
        .name = "slow reader",
        .fn = read_slowly,
        .args = &args,
        .args_size = sizeof args,
        .engine = WEIR_ENGINE_VECTOR,
        .tensors = (weir_tensor *[]){from, to},
        .ntensors = 2,
    };

    demo_must(weir_launch_submit(s->second, &launch));
}

struct outcome {
    bool kept;     /* y got other bytes while x was being read */
    bool returned; /* z got x's bytes, because its stream was ordered after the read */
    bool values;   /* the reader saw the contents of x */
    uint64_t host_syncs;
};

static struct outcome play(struct scenario *s)
{
    weir_memory_stats before, after;
    weir_tensor *x, *y, *z, *copy;
    const void *bytes;
    struct outcome o;

    demo_must(weir_device_sync(s->dev));
    demo_must(weir_memory_empty_cache(s->dev));
    weir_memory_get_stats(s->dev, &before, sizeof before);

    x = filled(s->first, 1);
    bytes = weir_tensor_data(x);
    demo_must(weir_tensor_empty(s->second, WEIR_F32, 1, (int64_t[]){COUNT}, &copy));
    demo_must(weir_stream_wait_stream(s->second, s->first));
    take_step(s, "default fills x with 1", x);
    queue_reader(s, x, copy);
    take_step(s, "second starts to read x, slowly", NULL);
    weir_tensor_release(x);
    take_step(s, "the host frees x", NULL);
    y = take_step(s, "default asks for y, fills it with 2", filled(s->first, 2));
    demo_must(weir_stream_wait_stream(s->first, s->second));
    z = take_step(s, "default waits for second; z, filled with 3", filled(s->first, 3));
    weir_memory_get_stats(s->dev, &after, sizeof after);
    o.kept = weir_tensor_data(y) != bytes;
    o.returned = weir_tensor_data(z) == bytes;
    o.host_syncs = after.host_syncs - before.host_syncs;

    atomic_store_explicit(&s->gate, true, memory_order_release);
    demo_must(weir_device_sync(s->dev));
    o.values = all_are(copy, 1) && all_are(y, 2) && all_are(z, 3);
    take_step(s, "the reader may go on; everything ends", NULL);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_tensor_release(copy);
    return o;
}

static void print_steps(const struct scenario *s)
{
    static const struct term_column columns[] = {
        {"step", false},   {"at", false},        {"allocated", true},
        {"pending", true}, {"host syncs", true},
    };
    struct term_table t = {.columns = columns, .ncolumns = sizeof columns / sizeof *columns};
    uint64_t base = s->steps[0].stats.host_syncs;

    for (int i = 0; i < s->nsteps; i++) {
        const struct step *step = &s->steps[i];
        char address[32] = "", syncs[32];

        if (step->address)
            snprintf(address, sizeof address, "...%06lx",
                     (unsigned long)((uintptr_t)step->address & 0xffffff));
        snprintf(syncs, sizeof syncs, "%llu", (unsigned long long)(step->stats.host_syncs - base));
        term_table_add(&t, (const char *const[]){step->text, address,
                                                 term_bytes(step->stats.allocated).text,
                                                 term_bytes(step->stats.pending).text, syncs});
    }
    term_table_print(&t, 3);
    printf("\n");
}

static void print_outcome(const struct outcome *o)
{
    char text[64];

    demo_verdict(o->kept, "x kept its memory while second read it: y got other memory");
    demo_verdict(o->returned,
                 "once default was ordered after second, z got the memory of x, before the read "
                 "had ended");
    demo_verdict(o->values, "second read 1s from x; y holds 2s and z holds 3s");
    snprintf(text, sizeof text, "the host waited %llu times for memory",
             (unsigned long long)o->host_syncs);
    demo_verdict(!o->host_syncs, text);
}

bool demo_lifetime(weir_device *dev, struct json *j)
{
    struct scenario s = {.dev = dev, .first = weir_stream_default(dev)};
    struct outcome o;

    demo_must(weir_stream_tagged(dev, "second", 0, &s.second));
    o = play(&s);
    if (j) {
        json_object(j, "lifetime");
        json_bool(j, "kept_while_read", o.kept);
        json_bool(j, "reused_by_order", o.returned);
        json_bool(j, "values_right", o.values);
        json_int(j, "host_syncs", (int64_t)o.host_syncs);
        json_object_end(j);
    } else {
        demo_headline(
            3, "Memory that another stream still reads",
            "The host frees a tensor while another stream is still reading it, and allocates "
            "again at once. The program does not tell the pool which streams use which "
            "tensor.");
        print_steps(&s);
        print_outcome(&o);
    }
    return o.kept && o.returned && o.values && !o.host_syncs;
}
