/* Interactions of plans with memory, errors and interrupted waits. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "device/device.h"
#include "harness/test.h"
#include "weir/weir.h"

static int64_t n = 1 << 12; /* elements of every tensor; each case has its own */
enum { BYTES = (1 << 12) * sizeof(float) };

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static weir_tensor *new_tensor(weir_stream *s, float value)
{
    weir_stream *before = weir_stream_current(weir_stream_device(s));
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_F32, 1, &n, &t));
    CHECK_OK(weir_stream_set_current(s));
    CHECK_OK(weir_fill(t, value));
    CHECK_OK(weir_stream_set_current(before));
    return t;
}

/* ---- a kernel that waits, and a call that waits or fails ---- */

static atomic_int gate_open, calls_over, failures;

static weir_status gate_kernel(const void *args, const weir_block *block)
{
    (void)args, (void)block;
    while (!atomic_load(&gate_open))
        pause_ms(1);
    return WEIR_OK;
}

static weir_status gated_call(void *user, void *const *in, void *const *out)
{
    (void)user, (void)out;
    while (!atomic_load(&gate_open))
        pause_ms(1);
    atomic_fetch_add(&calls_over, 1);
    return *(const float *)in[0] < 0 && !atomic_fetch_add(&failures, 1) ? WEIR_EKERNEL : WEIR_OK;
}

static void *open_gate_later(void *ms)
{
    pause_ms(*(long *)ms);
    atomic_store(&gate_open, 1);
    return NULL;
}

/* y = a function of x that waits for the gate, and fails the first time for x < 0. */
static weir_plan *gated_plan(weir_device *dev)
{
    weir_host_call call = {.name = "gated", .fn = gated_call, .nout = 1};
    weir_tensor *x, *y;
    weir_graph *g;
    weir_plan *plan;

    call.out[0].dtype = WEIR_F32;
    call.out[0].ndim = 1;
    call.out[0].shape[0] = n;
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_host_run(&call, &x, 1, &y));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "y", y));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    return plan;
}

static int interrupt(void *user)
{
    ++*(int *)user;
    return 1;
}

/* ---- destroying what runs ---- */

TEST(plan_edges, destroying_a_running_plan_cannot_be_interrupted)
{
    weir_device *dev;
    weir_tensor *x, *y = NULL;
    weir_plan *plan;
    pthread_t helper;
    long ms = 300;
    int calls = 0;

    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    x = new_tensor(weir_stream_default(dev), 1);
    plan = gated_plan(dev);
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &y, 1));
    CHECK_EQ(pthread_create(&helper, NULL, open_gate_later, &ms), 0);
    weir_wait_hook_set(interrupt, &calls);
    weir_plan_destroy(plan);
    CHECK_EQ(atomic_load(&calls_over), 1);
    CHECK_EQ(calls, 0);
    weir_wait_hook_set(NULL, NULL);
    pthread_join(helper, NULL);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(dev));
}

TEST(plan_edges, a_plan_that_is_stuck_lives_until_the_device_closes)
{
    weir_device *dev;
    weir_tensor *x, *y = NULL;
    weir_plan *plan;

    CHECK_OK(weir_device_open("cpu:threads=2,op_timeout=1", &dev));
    x = new_tensor(weir_stream_default(dev), 1);
    plan = gated_plan(dev);
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &y, 1));
    weir_plan_destroy(plan); /* after a second */
    CHECK_EQ(atomic_load(&calls_over), 0);
    atomic_store(&gate_open, 1);
    CHECK_OK(weir_device_sync(dev));
    CHECK_EQ(atomic_load(&calls_over), 1);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_device_close(dev));
}

/* ---- instances ---- */

/* All instances run; a run that waits for one of them, bound as itself wants it, does not
 * inherit its error. */
TEST(plan_edges, a_run_that_waits_for_a_failed_run_gets_no_error_from_it)
{
    enum { RUNS = 9 };
    weir_stream *s[RUNS];
    weir_tensor *x[RUNS], *y[RUNS] = {NULL};
    weir_device *dev;
    weir_plan *plan;
    pthread_t helper;
    long ms = 100;

    CHECK_OK(weir_device_open("cpu:threads=4", &dev));
    plan = gated_plan(dev);
    for (int i = 0; i < RUNS; i++) {
        CHECK_OK(weir_stream_create(dev, NULL, &s[i]));
        x[i] = new_tensor(s[i], i ? 1 : -1);
    }
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < RUNS; i++) {
        if (i == RUNS - 1)
            CHECK_EQ(pthread_create(&helper, NULL, open_gate_later, &ms), 0);
        CHECK_OK(weir_plan_run(plan, s[i], &x[i % 8], 1, &y[i % 8], 1));
    }
    for (int i = 0; i < RUNS; i++)
        CHECK_STATUS(weir_stream_sync(s[i]), i ? WEIR_OK : WEIR_EKERNEL);
    CHECK_EQ(atomic_load(&calls_over), RUNS);
    pthread_join(helper, NULL);
    for (int i = 0; i < RUNS; i++) {
        weir_tensor_release(x[i]);
        weir_tensor_release(y[i]);
        CHECK_OK(weir_stream_destroy(s[i]));
    }
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* z = relu(relu(x)), with memory of its own for what lies between. */
static weir_plan *two_steps(weir_device *dev, const weir_compile_options *options)
{
    weir_tensor *x, *y, *z;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_scope_push_stream("lane", 0));
    CHECK_OK(weir_relu(x, &y));
    CHECK_OK(weir_scope_pop(WEIR_SCOPE_STREAM));
    CHECK_OK(weir_relu(y, &z));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "z", z));
    CHECK_OK(weir_graph_compile(g, options, &plan));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_graph_destroy(g);
    return plan;
}

struct runner {
    weir_plan *plan;
    weir_stream *s;
    weir_tensor *x, *z;
    atomic_int *started;
};

static void *run_once(void *arg)
{
    struct runner *r = arg;

    atomic_fetch_add(r->started, 1);
    CHECK_OK(weir_plan_run(r->plan, r->s, &r->x, 1, &r->z, 1));
    CHECK_OK(weir_stream_sync(r->s));
    return NULL;
}

/* Seven instances run, and threads want three more at once while memory is so short that
 * making one waits: of all those only one has a place. */
TEST(plan_edges, threads_that_wait_for_memory_make_no_more_instances_than_there_are)
{
    enum { BUSY = 7, THREADS = 3, ALL = BUSY + THREADS, HOGS = 4096 };
    static weir_buffer *hogs[HOGS];
    struct runner r[ALL];
    pthread_t threads[THREADS];
    weir_plan_stats stats;
    weir_memory_stats memory;
    atomic_int started = 0;
    weir_device *dev;
    weir_stream *gate;
    weir_plan *plan;
    int nhogs = 0;
    static float values[1 << 12];

    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    gate = weir_stream_default(dev);
    plan = two_steps(dev, &(weir_compile_options){.mode = WEIR_COMPILE_REDUCE_OVERHEAD});
    for (int i = 0; i < ALL; i++) {
        r[i] = (struct runner){.plan = plan, .started = &started};
        CHECK_OK(weir_stream_create(dev, NULL, &r[i].s));
        r[i].x = new_tensor(r[i].s, (float)i);
        r[i].z = new_tensor(r[i].s, -1);
    }
    for (int round = 0; round < 2; round++) {
        CHECK_OK(weir_device_sync(dev));
        if (round) { /* every instance is there; now memory becomes short */
            weir_memory_get_stats(dev, &memory, sizeof memory);
            CHECK_OK(weir_memory_set_limit(dev, memory.reserved));
            while (nhogs < HOGS && !weir_buffer_alloc(gate, BYTES, &hogs[nhogs]))
                nhogs++;
            CHECK_LT(nhogs, HOGS);
            atomic_store(&gate_open, 0);
        }
        CHECK_OK(weir_launch_submit(gate, &(weir_launch){.fn = gate_kernel}));
        for (int i = 0; i < BUSY; i++) {
            CHECK_OK(weir_stream_wait_stream(r[i].s, gate));
            CHECK_OK(weir_plan_run(plan, r[i].s, &r[i].x, 1, &r[i].z, 1));
        }
        weir_plan_get_stats(plan, &stats, sizeof stats);
        CHECK_EQ(stats.instances, BUSY);
        if (!round)
            atomic_store(&gate_open, 1);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run_once, &r[BUSY + i]), 0);
    while (atomic_load(&started) < THREADS)
        pause_ms(1);
    pause_ms(50); /* all of them are in the pool by now */
    for (int i = 0; i < nhogs; i++)
        weir_buffer_free(hogs[i]);
    atomic_store(&gate_open, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_LE(stats.instances, 8);
    CHECK_OK(weir_device_sync(dev));
    for (int i = 0; i < ALL; i++) {
        CHECK_OK(weir_tensor_read(r[i].z, values, sizeof values));
        CHECK(values[n - 1] == (float)i);
        weir_tensor_release(r[i].x);
        weir_tensor_release(r[i].z);
        CHECK_OK(weir_stream_destroy(r[i].s));
    }
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* ---- what a plan keeps ---- */

/* The options are read while compiling; a page that is gone afterwards proves it. */
TEST(plan_edges, the_caller_may_free_the_strings_of_the_options)
{
    char *cores = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    weir_tensor *x, *z[2] = {NULL};
    weir_device *dev;
    weir_plan *plan;

    CHECK(cores != MAP_FAILED);
    strcpy(cores, "-1|-1");
    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    x = new_tensor(weir_stream_default(dev), 1);
    plan = two_steps(dev, &(weir_compile_options){.cores = cores});
    munmap(cores, 4096);
    for (int i = 0; i < 2; i++) /* each binds other outputs */
        CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), &x, 1, &z[i], 1));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    weir_tensor_release(z[0]);
    weir_tensor_release(z[1]);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* ---- what a merged plan's streams owe ---- */

/* Looking at a stream of a merged plan queues a wait on it; whoever then only asks, and
 * never waits, must see it pass although every worker slept. */
TEST(plan_edges, looking_up_a_stream_of_a_merged_plan_terminates)
{
    weir_device *dev;
    weir_stream *s, *lane;
    weir_buffer *b;
    weir_tensor *x, *z;
    weir_event *e;
    weir_plan *plan;
    char *text;
    bool done;

    n = 64; /* too short to gain from two streams */
    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    s = weir_stream_default(dev);
    CHECK_OK(weir_stream_tagged(dev, "lane", 0, &lane));
    CHECK_OK(weir_buffer_alloc(lane, 64, &b));
    CHECK_OK(weir_event_create(dev, NULL, &e));
    x = new_tensor(s, 1);
    z = new_tensor(s, 1);
    plan = two_steps(dev, NULL);
    text = weir_plan_list(plan);
    CHECK_STR(text, "on the caller's stream");
    free(text);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(weir_plan_run(plan, s, &x, 1, &z, 1));
        pause_ms(50); /* it is over, nobody has waited for that, and the workers sleep */
        done = false;
        if (round)
            CHECK_OK(weir_buffer_used_on(b, lane));
        else
            CHECK_OK(weir_event_record(e, lane));
        for (; !done; pause_ms(1))
            CHECK_OK(round ? weir_stream_query(lane, &done) : weir_event_query(e, &done));
    }
    weir_event_destroy(e);
    weir_buffer_free(b);
    weir_tensor_release(x);
    weir_tensor_release(z);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

static struct weir__mark last_of(weir_stream *s)
{
    return (struct weir__mark){s, weir__stream_submitted(s)};
}

/* Runs on two streams and other work on the plan's own, in any order. */
TEST(plan_edges, a_run_of_a_merged_plan_is_ordered_after_all_work_queued_on_its_streams)
{
    const weir_launch launch = {.name = "work"};
    struct weir__mark before[2] = {{NULL, 0}, {NULL, 0}}; /* the lane's work, the last run */
    weir_stream *callers[2], *lane;
    uint32_t random = 1;
    weir_tensor *x, *z;
    weir_device *dev;
    weir_plan *plan;

    n = 64;
    CHECK_OK(weir_device_open("cpu:threads=2", &dev));
    CHECK_OK(weir_stream_tagged(dev, "lane", 0, &lane));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &callers[i]));
    x = new_tensor(lane, 1);
    z = new_tensor(lane, 1);
    plan = two_steps(dev, NULL);
    for (int step = 0; step < 1000; step++) {
        weir_stream *s;

        random = random * 1664525 + 1013904223;
        s = callers[random >> 30 & 1];
        if (random >> 28 & 3) {
            CHECK_OK(weir_plan_run(plan, s, &x, 1, &z, 1));
            for (int i = 0; i < 2; i++)
                CHECK(!before[i].stream || weir__stream_is_after(s, before[i], WEIR__WAIT_ORDER));
            before[1] = last_of(s);
        } else {
            CHECK_OK(weir_launch_submit(lane, &launch));
            CHECK(!before[1].stream || weir__stream_is_after(lane, before[1], WEIR__WAIT_ORDER));
            before[0] = last_of(lane);
        }
    }
    weir_tensor_release(x);
    weir_tensor_release(z);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

/* ---- memory that a run is given twice ---- */

/* a + b, and b + 1 written into b. */
static weir_plan *plan_that_writes_b(weir_device *dev)
{
    weir_tensor *a, *b, *sum;
    weir_graph *g;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "a", WEIR_F32, 1, &n, &a));
    CHECK_OK(weir_graph_input(g, "b", WEIR_F32, 1, &n, &b));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(a, b, &sum));
    CHECK_OK(weir_add_scalar_into(b, 1, b));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "sum", sum));
    CHECK_OK(weir_graph_output(g, "more", b));
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(sum);
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    weir_graph_destroy(g);
    return plan;
}

TEST(plan_edges, outputs_of_a_run_share_memory_with_nothing_else)
{
    weir_device *dev;
    CHECK_OK(weir_device_open("cpu", &dev));
    weir_stream *s = weir_stream_default(dev);
    weir_plan *plan = plan_that_writes_b(dev);
    weir_tensor *a = new_tensor(s, 2), *b = new_tensor(s, 3), *c = new_tensor(s, 0);
    weir_tensor *d = new_tensor(s, 0);
    static float values[BYTES / sizeof(float)];

    CHECK_STATUS(weir_plan_run(plan, s, (weir_tensor *[]){a, b}, 2, (weir_tensor *[]){c, c}, 2),
                 WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "output 'sum'");
    CHECK_STR(weir_last_error(), "output 'more'");
    CHECK_STATUS(weir_plan_run(plan, s, (weir_tensor *[]){a, b}, 2, (weir_tensor *[]){a, c}, 2),
                 WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "input 'a'");
    CHECK_STATUS(weir_plan_run(plan, s, (weir_tensor *[]){b, b}, 2, (weir_tensor *[]){c, d}, 2),
                 WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "input 'b' is written");
    CHECK_OK(weir_plan_run(plan, s, (weir_tensor *[]){a, b}, 2, (weir_tensor *[]){c, d}, 2));
    CHECK_OK(weir_tensor_read(c, values, sizeof values));
    CHECK(values[n - 1] == 5);
    CHECK_OK(weir_tensor_read(b, values, sizeof values));
    CHECK(values[n - 1] == 4);
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(c);
    weir_tensor_release(d);
    weir_plan_destroy(plan);
    CHECK_OK(weir_device_close(dev));
}

TEST(plan_edges, a_plan_says_which_inputs_it_writes_to)
{
    weir_tensor *x, *y, *z, *part, *sum;
    weir_device *dev;
    weir_graph *g;
    weir_plan *plan;

    n = 8;
    CHECK_OK(weir_device_open("cpu", &dev));
    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_input(g, "y", WEIR_F32, 1, &n, &y));
    CHECK_OK(weir_graph_input(g, "z", WEIR_F32, 1, &n, &z));
    CHECK_OK(weir_graph_begin(g));
    CHECK_OK(weir_add(x, y, &sum));
    CHECK_OK(weir_copy_into(sum, y));
    CHECK_OK(weir_tensor_slice(z, 0, 2, 4, 1, &part));
    CHECK_OK(weir_fill(part, 3));
    CHECK_OK(weir_graph_end(g));
    CHECK_OK(weir_graph_output(g, "sum", sum));
    CHECK_OK(weir_graph_compile(g, NULL, &plan));
    CHECK(!weir_plan_writes_input(plan, 0));
    CHECK(weir_plan_writes_input(plan, 1));
    CHECK(weir_plan_writes_input(plan, 2)); /* to a part of it */
    CHECK(!weir_plan_writes_input(plan, 3));
    weir_plan_destroy(plan);
    weir_graph_destroy(g);
    for (int i = 0; i < 5; i++)
        weir_tensor_release((weir_tensor *[]){x, y, z, part, sum}[i]);
    CHECK_OK(weir_device_close(dev));
}
