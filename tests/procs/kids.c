#define _GNU_SOURCE
#include "procs/kids.h"
#include "procs/loss/left.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>

extern char **environ;

static struct scenario *scenarios;

void scenario_register(struct scenario *s)
{
    for (const struct scenario *other = scenarios; other; other = other->next)
        if (!strcmp(other->name, s->name)) {
            dprintf(2, "two scenarios have the name %s\n", s->name);
            abort();
        }
    s->next = scenarios;
    scenarios = s;
}

static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/* A rank that crashes says where, whatever its launcher makes of it. */
static void say_where(int signal_)
{
    void *at[40];
    int n = backtrace(at, 40);

    dprintf(2, "process %d: signal %d at\n", (int)getpid(), signal_);
    backtrace_symbols_fd(at, n, 2);
    signal(signal_, SIG_DFL);
    raise(signal_);
}

static const char *find_rank(const char *name)
{
    return getenv(name) ? getenv(name) : "";
}

static sigset_t go;

void await_go(void)
{
    CHECK_EQ(sigwaitinfo(&go, NULL), SIGUSR2);
}

void kids_go(struct kids *k, int i)
{
    CHECK(!kill(k->pid[i], SIGUSR2));
}

/* After all scenarios are registered, before main. */
__attribute__((constructor(200))) static void be_a_rank(void)
{
    const char *name = getenv("KID_SCENARIO");
    struct scenario *s = scenarios;

    if (!name)
        return;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR2);
    sigprocmask(SIG_BLOCK, &go, NULL); /* in all threads, for await_go */
    if (getenv("KID_LOG")) /* what starts it falls over a rank that dies; it says what it has to */
        signal(SIGTERM, SIG_IGN);
    else
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives the case */
    while (s && strcmp(s->name, name))
        s = s->next;
    if (!s)
        _exit(3);
    for (size_t i = 0; !TEST_SANITIZED && i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], say_where);
    test_note("rank %s%s%s of scenario %s", find_rank("WEIR_RANK"), find_rank("PMI_RANK"),
              find_rank("OMPI_COMM_WORLD_RANK"), name);
    s->run();
    fflush(stdout);
    exit(0);
}

static char *join_text(const char *name, const char *value)
{
    char *text = malloc(strlen(name) + strlen(value) + 2);

    sprintf(text, "%s=%s", name, value);
    return text;
}

static void start_one(struct kids *k, int i, const char *scenario, const char *const *extra)
{
    char rank[16], ranks[16], *env[64], *args[] = {(char *)"rank", NULL};
    posix_spawn_file_actions_t files;
    int n = 0, pipe_fd[2];

    snprintf(rank, sizeof rank, "%d", i);
    snprintf(ranks, sizeof ranks, "%d", k->n);
    for (; extra && *extra; extra++) /* first: they are found first */
        env[n++] = strdup(*extra);
    env[n++] = join_text("KID_SCENARIO", scenario);
    env[n++] = join_text("WEIR_RANK", rank);
    env[n++] = join_text("WEIR_RANKS", ranks);
    env[n++] = join_text("WEIR_STORE", k->store);
    for (char **e = environ; *e && n < 62; e++)
        if (!strncmp(*e, "PATH=", 5) || !strncmp(*e, "ASAN_", 5) || !strncmp(*e, "TSAN_", 5) ||
            !strncmp(*e, "UBSAN_", 6) || !strncmp(*e, "LSAN_", 5) ||
            !strncmp(*e, "LD_LIBRARY_PATH=", 16) || !strncmp(*e, "WEIR_CACHE_DIR=", 15) ||
            !strncmp(*e, "WEIR_LIBNCCL=", 13))
            env[n++] = strdup(*e);
    env[n] = NULL;
    CHECK(!pipe2(pipe_fd, O_CLOEXEC));
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, pipe_fd[1], 1);
    CHECK_EQ(posix_spawn(&k->pid[i], "/proc/self/exe", &files, NULL, args, env), 0);
    posix_spawn_file_actions_destroy(&files);
    close(pipe_fd[1]);
    k->out[i] = pipe_fd[0];
    while (n)
        free(env[--n]);
}

void kids_start(struct kids *k, int n, const char *scenario, const char *const *extra)
{
    memset(k, 0, sizeof *k);
    k->n = n;
    snprintf(k->store, sizeof k->store, "file:/tmp/weir-test-%d-%s", (int)getpid(), scenario);
    for (int i = 0; i < n; i++)
        start_one(k, i, scenario, extra);
}

/* False at the end. */
static bool read_some(struct kids *k, int i)
{
    ssize_t n = read(k->out[i], k->text[i] + k->have[i], KID_TEXT - 1 - k->have[i]);

    if (n <= 0)
        return false;
    k->have[i] += (size_t)n;
    return true;
}

/* What the ranks have said so far. */
static void print_all(struct kids *k)
{
    for (int i = 0; i < k->n; i++) {
        fcntl(k->out[i], F_SETFL, O_NONBLOCK);
        while (read_some(k, i))
            ;
        printf("rank %d: %s\n", i, k->text[i]);
    }
}

void kids_await(struct kids *k, int i, const char *part)
{
    while (!strstr(k->text[i], part))
        if (!read_some(k, i)) {
            print_all(k);
            FAIL("rank %d ended before it said '%s'", i, part);
        }
}

void kids_await_line(struct kids *k, int i, const char *part)
{
    const char *at;

    for (kids_await(k, i, part); (at = strstr(k->text[i], part)) && !strchr(at, '\n');)
        if (!read_some(k, i))
            FAIL("rank %d ended in the middle of '%s'", i, at);
}

void kids_end(struct kids *k, int i)
{
    while (read_some(k, i))
        ;
    close(k->out[i]);
    while (waitpid(k->pid[i], &k->status[i], 0) < 0)
        CHECK_EQ(errno, EINTR);
}

void kids_end_well(struct kids *k)
{
    bool well = true;

    for (int i = 0; i < k->n; i++) {
        kids_end(k, i);
        well &= !k->status[i];
        if (k->status[i] || k->text[i][0])
            printf("rank %d, status %x: %s\n", i, (unsigned)k->status[i], k->text[i]);
    }
    CHECK(well);
    CHECK(access(k->store + 5, F_OK)); /* the store's file is gone */
}

void kids_run(int n, const char *scenario, const char *const *extra)
{
    struct kids k;

    kids_start(&k, n, scenario, extra);
    kids_end_well(&k);
}

/* ---- in a rank ---- */

weir_group *join(weir_device **dev, const weir_join_options *options)
{
    const char *spec = getenv("KID_DEVICE");
    char usual[60];
    weir_group *g;

    own_begin();
    /* Half of what a case has: a rank that waits for another in vain says so before it is killed.
     */
    snprintf(usual, sizeof usual, "cpu:cores=2,op_timeout=%.0f", 30 * test_patience());
    CHECK_OK(weir_device_open(spec ? spec : usual, dev));
    CHECK_OK(weir_group_join(*dev, options, &g));
    return g;
}

void say(const char *format, ...)
{
    char text[2000];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)!write(1, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void leave(weir_group *g, weir_device *dev)
{
    bool by_library = (g && strcmp(weir_group_engine(g), "shm")) || getenv("KID_DEVICE");
    bool lost_by_mpi = g && weir_group_state(g) && !strcmp(weir_group_engine(g), "mpi");
    char text[2000];

    weir_device_sync(dev);
    if (g)
        CHECK_OK(weir_group_destroy(g));
    CHECK_OK(weir_device_close(dev));
    /* MPI may still access memory of requests that a rank that died keeps from being over. */
    if (own_find(by_library, text, sizeof text) && !lost_by_mpi)
        FAIL("the rank has left, and still has %s", text);
}

weir_plan *plan_of_sums(weir_rank *rank, weir_device *dev, int64_t n, int times)
{
    weir_tensor *x, *y;
    weir_graph *graph;
    weir_plan *plan;

    CHECK_OK(weir_graph_create(dev, &graph));
    CHECK_OK(weir_graph_input(graph, "x", WEIR_F32, 1, &n, &x));
    CHECK_OK(weir_graph_begin(graph));
    for (int i = 0; i < times; i++, x = y) {
        CHECK_OK(weir_all_reduce(rank, x, WEIR_REDUCE_SUM, &y));
        weir_tensor_release(x);
    }
    CHECK_OK(weir_graph_end(graph));
    CHECK_OK(weir_graph_output(graph, "y", x));
    CHECK_OK(weir_graph_compile(graph, NULL, &plan));
    weir_tensor_release(x);
    weir_graph_destroy(graph);
    return plan;
}

weir_tensor *zeros(weir_device *dev, int64_t n)
{
    weir_tensor *t;
    float *data = calloc((size_t)n + 1, sizeof *data);

    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_F32, 1, &n, data, &t));
    free(data);
    return t;
}

weir_tensor *numbers(weir_device *dev, int64_t n, int64_t value)
{
    int64_t *data = malloc((size_t)(n + 1) * sizeof *data);
    weir_tensor *t;

    for (int64_t i = 0; i < n; i++)
        data[i] = value + i;
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_I64, 1, &n, data, &t));
    free(data);
    return t;
}

void expect_numbers(weir_tensor *t, int64_t n, int64_t first, int64_t step)
{
    int64_t *data = malloc((size_t)(n + 1) * sizeof *data);

    CHECK_EQ(weir_tensor_numel(t), n);
    CHECK_OK(weir_tensor_read(t, data, (size_t)n * sizeof *data));
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(data[i], first + i * step);
    free(data);
}

weir_status sum_once(weir_group *g, weir_device *dev)
{
    weir_tensor *x = numbers(dev, 5, 1), *y = NULL;
    weir_status st = weir_all_reduce(weir_group_self(g), x, WEIR_REDUCE_SUM, &y);

    if (!st)
        st = weir_stream_sync(weir_stream_default(dev));
    if (!st)
        expect_numbers(y, 5, weir_group_size(g), weir_group_size(g));
    weir_tensor_release(x);
    weir_tensor_release(y);
    return st;
}

uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}
