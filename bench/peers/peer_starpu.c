/* StarPU: a data handle serves as a queue, since tasks that write it run in order. */
#include "../dag_gen.h"
#include "gemm.h"

#include <starpu.h>

enum {
    CHAIN = 5000,
    HOPS = 2000,
    FORKS = 100,
    FORK_WIDTH = 8,
    WAITS = 200,
    DAG_RUNS = 3,
};

static void empty_cpu(void *buffers[], void *arg)
{
    (void)buffers;
    (void)arg;
}

static struct starpu_codelet one_queue = {
    .cpu_funcs = {empty_cpu},
    .nbuffers = 1,
    .modes = {STARPU_RW},
};
static struct starpu_codelet two_queues = {
    .cpu_funcs = {empty_cpu},
    .nbuffers = 2,
    .modes = {STARPU_RW, STARPU_R},
};

static starpu_data_handle_t queues[FORK_WIDTH];

static bool start(const struct bench *b)
{
    static int words[FORK_WIDTH];
    struct starpu_conf conf;

    starpu_conf_init(&conf);
    conf.ncpus = b->threads;
    conf.ncuda = 0;
    conf.nopencl = 0;
    if (starpu_init(&conf)) {
        bench_skip(b, "starpu_init failed");
        return false;
    }
    for (int i = 0; i < FORK_WIDTH; i++)
        starpu_variable_data_register(&queues[i], STARPU_MAIN_RAM, (uintptr_t)&words[i],
                                      sizeof words[i]);
    return true;
}

/* worker -1: any free worker. */
static void submit(struct starpu_codelet *codelet, starpu_data_handle_t own,
                   starpu_data_handle_t other, void *arg, int worker)
{
    struct starpu_task *task = starpu_task_create();

    task->cl = codelet;
    task->handles[0] = own;
    if (other)
        task->handles[1] = other;
    task->cl_arg = arg;
    if (worker >= 0) {
        task->execute_on_a_specific_worker = 1;
        task->workerid = (unsigned)worker;
    }
    if (starpu_task_submit(task))
        abort();
}

static double chain_once(void *ctx)
{
    double begin = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < CHAIN; i++)
        submit(&one_queue, queues[0], NULL, NULL, -1);
    starpu_task_wait_for_all();
    return (bench_now_ns() - begin) / CHAIN;
}

static double hops_once(void *ctx)
{
    bool pinned = *(const bool *)ctx;
    double begin = bench_now_ns();

    for (int i = 0; i < HOPS; i++)
        submit(&two_queues, queues[i & 1], queues[1 - (i & 1)], NULL, pinned ? i & 1 : -1);
    starpu_task_wait_for_all();
    return (bench_now_ns() - begin) / HOPS;
}

static double forks_once(void *ctx)
{
    double begin = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < FORKS; i++) {
        for (int j = 0; j < FORK_WIDTH; j++)
            submit(&one_queue, queues[j], NULL, NULL, -1);
        starpu_task_wait_for_all();
    }
    return (bench_now_ns() - begin) / FORKS;
}

static double waits_once(void *ctx)
{
    double begin = bench_now_ns();

    (void)ctx;
    for (int i = 0; i < WAITS; i++) {
        submit(&one_queue, queues[0], NULL, NULL, -1);
        starpu_task_wait_for_all();
    }
    return (bench_now_ns() - begin) / WAITS;
}

/* Tasks made once and submitted again for each run, ordered by declared edges. */
struct dag {
    struct starpu_task *tasks[DAG_NODES];
};

static void make_dag(struct dag *d)
{
    static struct starpu_codelet empty = {.cpu_funcs = {empty_cpu}};
    static int deps[DAG_NODES][2];

    dag_generate(deps);
    for (int i = 0; i < DAG_NODES; i++) {
        d->tasks[i] = starpu_task_create();
        d->tasks[i]->cl = &empty;
        d->tasks[i]->destroy = 0;
        if (i)
            starpu_task_declare_deps_array(
                d->tasks[i], 2,
                (struct starpu_task *[]){d->tasks[deps[i][0]], d->tasks[deps[i][1]]});
    }
}

static double dag_once(void *ctx)
{
    struct dag *d = ctx;
    double begin = bench_now_ns();

    for (int run = 0; run < DAG_RUNS; run++) {
        for (int i = 0; i < DAG_NODES; i++)
            if (starpu_task_submit(d->tasks[i]))
                abort();
        starpu_task_wait_for_all();
    }
    return (bench_now_ns() - begin) / DAG_RUNS / DAG_NODES;
}

static void run_dag(struct bench *b)
{
    static struct dag d;

    if (!start(b))
        return;
    make_dag(&d);
    bench_sample(b, "StarPU: resubmitted", "ns", 3, dag_once, &d);
}

static void chain(struct bench *b)
{
    if (start(b))
        bench_sample(b, "StarPU", "ns", 3, chain_once, NULL);
}

static void pingpong(struct bench *b)
{
    bool pinned = false;

    if (!start(b))
        return;
    bench_sample(b, "StarPU", "ns", 3, hops_once, &pinned);
    pinned = true;
    bench_sample(b, "StarPU: a worker for each queue", "ns", 3, hops_once, &pinned);
}

static void fork_join(struct bench *b)
{
    if (start(b))
        bench_sample(b, "StarPU", "ns", 3, forks_once, NULL);
}

static void submit_wait(struct bench *b)
{
    if (start(b))
        bench_sample(b, "StarPU", "ns", 3, waits_once, NULL);
}

#ifdef PEER_OPENBLAS
static void gemm_cpu(void *buffers[], void *arg)
{
    (void)buffers;
    gemm_run(arg);
}

static struct starpu_codelet gemm_codelet = {
    .cpu_funcs = {gemm_cpu},
    .nbuffers = 1,
    .modes = {STARPU_RW},
};

static double chains(void *ctx, int count)
{
    struct gemm *work = ctx;
    double begin = bench_now_ns();

    for (int i = 0; i < 2 * GEMM_CHAIN; i++)
        submit(&gemm_codelet, queues[count == 1 ? 0 : i & 1], NULL, &work[i & 1], -1);
    starpu_task_wait_for_all();
    return bench_now_ns() - begin;
}

static void overlap(struct bench *b)
{
    struct gemm work[2] = {gemm_make(), gemm_make()};

    if (start(b))
        gemm_overlap(b, "StarPU", chains, work);
}
#endif

static void idle(struct bench *b)
{
    if (!start(b))
        return;
    chain_once(NULL);
    bench_idle_share(b, "StarPU");
}

int main(int argc, char **argv)
{
    static const struct bench_case cases[] = {
        {"chain", 2, chain},
        {"dag_1000_t1", 1, run_dag},
        {"dag_1000_t2", 2, run_dag},
        {"pingpong", 2, pingpong},
        {"fork_join_8", 2, fork_join},
        {"submit_wait", 2, submit_wait},
#ifdef PEER_OPENBLAS
        {"overlap_matmul", 2, overlap},
#endif
        {"idle_cpu", 1, idle},
    };

    /* StarPU's greeting would be mixed with our lines. */
    setenv("STARPU_SILENT", "1", 1);
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
