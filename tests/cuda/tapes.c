/* Plans in CUDA graphs that another library captures; the test acts as that library. */
#include "conformance/graph/picks.h"
#include "gpu.h"

struct player {
    weir_device *dev;
    weir_plan *plan;
    weir_stream *s;
    weir_tape *tape;
    weir_tensor *table, *index, *out[2], *copy;
    weir__cu_stream native;
    weir__cu_exec exec;
};

static const struct weir__cu *cu(const struct player *p)
{
    return &weir__cuda_of(p->dev)->api->cu;
}

static void copy_outside(const struct player *p, weir_tensor *to, weir_tensor *from, size_t bytes)
{
    CHECK_EQ(cu(p)->copy_async((weir__cu_address)(uintptr_t)weir_tensor_data(to),
                               (weir__cu_address)(uintptr_t)weir_tensor_data(from), bytes,
                               p->native),
             0);
}

static weir_status add(struct player *p)
{
    return weir_tape_add(p->tape, p->plan, p->s, (weir_tensor *[]){p->table, p->index}, 2, p->out,
                         2, p->native);
}

/* A graph of a plan's run, a copy of what it gives, and another run that gives the same. */
static void record(struct player *p)
{
    bool pushed = weir__cuda_enter(weir__cuda_of(p->dev));
    weir__cu_graph graph;

    CHECK_EQ(cu(p)->capture_begin(p->native, CU_CAPTURE_RELAXED), 0);
    CHECK_OK(add(p));
    copy_outside(p, p->copy, p->out[1], TAKEN * sizeof(float));
    CHECK_OK(add(p));
    CHECK_EQ(cu(p)->capture_end(p->native, &graph), 0);
    CHECK_EQ(cu(p)->graph_instantiate(&p->exec, graph, 0), 0);
    cu(p)->graph_destroy(graph);
    weir__cuda_leave(weir__cuda_of(p->dev), pushed);
}

static void open_player(struct player *p, bool beside)
{
    bool pushed;

    p->dev = open_gpu("cuda:0");
    p->plan = make_picks(p->dev, beside);
    CHECK_OK(weir_stream_create(p->dev, NULL, &p->s));
    p->table = gpu_tensor(p->s, WEIR_F32, ROWS, 1);
    p->index = gpu_tensor(p->s, WEIR_I64, TAKEN, 2);
    p->out[0] = gpu_tensor(p->s, WEIR_F32, ROWS, 0);
    p->out[1] = gpu_tensor(p->s, WEIR_F32, TAKEN, 0);
    p->copy = gpu_tensor(p->s, WEIR_F32, TAKEN, 0);
    CHECK_OK(weir_tape_create(p->dev, &p->tape));
    pushed = weir__cuda_enter(weir__cuda_of(p->dev));
    CHECK_OK(weir__cuda_new_stream(weir__cuda_of(p->dev), NULL, 0, &p->native));
    weir__cuda_leave(weir__cuda_of(p->dev), pushed);
}

static void run_plainly(struct player *p)
{
    CHECK_OK(weir_plan_run(p->plan, p->s, (weir_tensor *[]){p->table, p->index}, 2, p->out, 2));
    CHECK_OK(weir_stream_sync(p->s));
}

static void close_player(struct player *p)
{
    bool pushed;

    weir_tape_destroy(p->tape); /* after its last launch */
    pushed = weir__cuda_enter(weir__cuda_of(p->dev));
    if (p->exec)
        cu(p)->exec_destroy(p->exec);
    cu(p)->stream_destroy(p->native);
    weir__cuda_leave(weir__cuda_of(p->dev), pushed);
    weir_plan_destroy(p->plan);
    weir_tensor_release(p->table);
    weir_tensor_release(p->index);
    weir_tensor_release(p->out[0]);
    weir_tensor_release(p->out[1]);
    weir_tensor_release(p->copy);
    CHECK_OK(weir_stream_destroy(p->s));
    CHECK_OK(weir_device_close(p->dev));
}

static weir_status play(struct player *p, weir_stream *s)
{
    bool pushed;
    weir_status st = weir_stream_signal_native(s, p->native);

    if (st || (st = weir_tape_begin(p->tape, s, p->native)))
        return st;
    pushed = weir__cuda_enter(weir__cuda_of(p->dev));
    CHECK_EQ(cu(p)->exec_launch(p->exec, p->native), 0);
    weir__cuda_leave(weir__cuda_of(p->dev), pushed);
    return weir_tape_end(p->tape, s, p->native);
}

static void check_copy(struct player *p, float want)
{
    float values[TAKEN];

    CHECK_OK(weir_stream_set_current(p->s));
    CHECK_OK(weir_tensor_read(p->copy, values, sizeof values));
    for (int i = 0; i < TAKEN; i++)
        CHECK_NEAR(values[i], want, 0);
    CHECK_OK(weir_stream_set_current(weir_stream_default(p->dev)));
}

static void play_and_fail(bool beside)
{
    struct player p = {0};
    weir_stream *other;

    open_player(&p, beside);
    run_plainly(&p);
    record(&p);
    CHECK_OK(weir_stream_set_current(p.s));
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weir_fill(p.copy, -1));
        CHECK_OK(play(&p, p.s));
        check_copy(&p, 1);
        CHECK_OK(weir_stream_set_current(p.s));
        run_plainly(&p); /* on an instance of its own */
    }
    CHECK_OK(weir_fill(p.index, 12));
    CHECK_OK(weir_stream_create(p.dev, NULL, &other));
    CHECK_OK(play(&p, p.s));
    CHECK_STATUS(weir_stream_sync(p.s), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "IndexSelect");
    CHECK_STR(weir_last_error(), "12");
    CHECK_STATUS(play(&p, p.s), WEIR_ERANGE); /* nothing more on this stream, */
    CHECK_OK(weir_stream_set_current(other));
    CHECK_OK(weir_fill(p.index, 1));
    CHECK_OK(play(&p, other)); /* but on another */
    CHECK_OK(weir_stream_sync(other));
    CHECK_OK(weir_stream_set_current(weir_stream_default(p.dev)));
    CHECK_OK(weir_stream_destroy(other));
    close_player(&p);
}

TEST(cuda_tapes, runs_in_another_librarys_graph_have_the_plans_results_and_errors)
{
    play_and_fail(false);
}

TEST(cuda_tapes, plans_of_several_streams_run_in_another_librarys_graph)
{
    play_and_fail(true);
}

TEST(cuda_tapes, a_plan_that_has_not_run_or_has_a_limit_is_refused)
{
    struct player p = {0};

    open_player(&p, false);
    CHECK_STATUS(add(&p), WEIR_ESTATE);
    CHECK_STR(weir_last_error(), "must run before");
    CHECK_OK(weir_stream_set_limit(p.s, (weir_cores){8, 8}));
    run_plainly(&p);
    CHECK_STATUS(add(&p), WEIR_EUNSUPPORTED);
    CHECK_STR(weir_last_error(), "core limit");
    close_player(&p);
}

TEST(cuda_tapes, only_cuda_devices_have_tapes)
{
    weir_device *dev;
    weir_tape *tape;

    CHECK_OK(weir_device_open("cpu", &dev));
    CHECK_STATUS(weir_tape_create(dev, &tape), WEIR_EUNSUPPORTED);
    CHECK_STR(weir_last_error(), "only cuda");
    CHECK_OK(weir_device_close(dev));
}
