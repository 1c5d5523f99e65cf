/* Random programs of collectives of sub-groups in place and on views with gaps, also of no
 * elements, while memory is freed and reused at once. Each rank computes on the host what all ranks
 * have. */
#include "procs/kids.h"

enum { RANKS = 4, ROWS = 24, COLUMNS = 1000, GROUPS = 4, STREAMS = 3, STEPS = 240 };

static const int members[GROUPS][RANKS] = {{0, 1, 2, 3}, {0, 2}, {3, 1}, {2, 1, 0}};
static const int sizes[GROUPS] = {4, 2, 2, 3};
static uint8_t model[RANKS][ROWS][COLUMNS]; /* what each rank's tensor has */

/* Rows [from, to) in steps, columns [left, right) of a tensor. */
struct part {
    int from, to, step, left, right;
};

static struct part draw_part(uint64_t *seed, int rows)
{
    struct part p = {.step = 1 + (int)(draw(seed) % 2), .right = COLUMNS};

    rows = draw(seed) % 12 ? rows : 0;
    p.from = (int)(draw(seed) % (uint64_t)(ROWS - rows * p.step + 1));
    p.to = p.from + rows * p.step;
    if (draw(seed) % 2) {
        p.left = (int)(draw(seed) % COLUMNS);
        p.right = p.left + (int)(draw(seed) % (uint64_t)(COLUMNS - p.left + 1));
    }
    return p;
}

static weir_tensor *view(weir_tensor *t, const struct part *p)
{
    weir_tensor *rows, *out;

    CHECK_OK(weir_tensor_slice(t, 0, p->from, p->to, p->step, &rows));
    CHECK_OK(weir_tensor_slice(rows, 1, p->left, p->right, 1, &out));
    weir_tensor_release(rows);
    return out;
}

static int rows_of(const struct part *p)
{
    return (p->to - p->from) / p->step;
}

/* What the part of that rank's tensor has, in a row. */
static void take(int rank, const struct part *p, uint8_t *out)
{
    for (int r = p->from; r < p->to; r += p->step)
        for (int c = p->left; c < p->right; c++)
            *out++ = model[rank][r][c];
}

static void put(int rank, const struct part *p, const uint8_t *in)
{
    for (int r = p->from; r < p->to; r += p->step)
        for (int c = p->left; c < p->right; c++)
            model[rank][r][c] = *in++;
}

enum kind { REDUCE, BROADCAST, GATHER, SCATTER, EXCHANGE, KINDS };

/* The result of rank `at` of n, whose inputs are in a row each. `k`: bytes that go to one rank. */
static void compute(enum kind kind, uint8_t in[][ROWS * COLUMNS], int n, int at, int root, size_t k,
                    uint8_t *out)
{
    if (kind == BROADCAST)
        memcpy(out, in[root], k);
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < k && kind != BROADCAST; i++) {
            if (kind == GATHER)
                out[(size_t)r * k + i] = in[r][i];
            else if (kind == EXCHANGE)
                out[(size_t)r * k + i] = in[r][(size_t)at * k + i];
            else
                out[i] =
                    (uint8_t)((r ? out[i] : 0) + in[r][(kind == SCATTER ? (size_t)at * k : 0) + i]);
        }
}

static weir_status call(enum kind kind, weir_rank *rank, weir_tensor *x, int root, weir_tensor **y)
{
    switch (kind) {
    case REDUCE:
        return weir_all_reduce(rank, x, WEIR_REDUCE_SUM, y);
    case BROADCAST:
        return weir_broadcast(rank, x, root, y);
    case GATHER:
        return weir_all_gather(rank, x, y);
    case SCATTER:
        return weir_reduce_scatter(rank, x, WEIR_REDUCE_SUM, y);
    default:
        return weir_all_to_all(rank, x, y);
    }
}

/* One step of the program, which is the same on every rank. */
static weir_status step(weir_tensor *mine, weir_group *const *groups, uint64_t *seed, int me)
{
    static uint8_t in[RANKS][ROWS * COLUMNS], out[ROWS * COLUMNS];
    /* Ranks 0 and 2, one of which is lost, are in all groups but one: its ranks would not notice.
     */
    int drawn = (int)(draw(seed) % GROUPS), g = drawn == 2 && getenv("KID_LOSE") ? 0 : drawn,
        n = sizes[g], root = (int)(draw(seed) % (uint64_t)n);
    enum kind kind = (enum kind)(draw(seed) % KINDS);
    int parts = kind == REDUCE || kind == BROADCAST ? 1 : n,
        rows = (int)(draw(seed) % (parts > 1 ? 4 : 13));
    bool splits = kind == SCATTER || kind == EXCHANGE, joins = kind == GATHER || kind == EXCHANGE;
    struct part from = draw_part(seed, splits ? rows * parts : rows), to = from;
    bool in_place = parts == 1 && draw(seed) % 2;
    weir_tensor *x, *y = NULL, *into;
    weir_status st;
    size_t k =
        (size_t)rows_of(&from) / (size_t)(splits ? parts : 1) * (size_t)(from.right - from.left);

    if (!in_place) { /* elsewhere in the same tensor, perhaps over the input */
        int want = rows_of(&from) * (joins && !splits ? parts : 1) / (splits && !joins ? parts : 1);

        to.step = 1;
        to.from = (int)(draw(seed) % (uint64_t)(ROWS - want + 1));
        to.to = to.from + want;
    }
    for (int i = 0; i < n; i++)
        take(members[g][i], &from, in[i]);
    for (int i = 0; i < n; i++) {
        compute(kind, in, n, i, root, k, out);
        put(members[g][i], &to, out);
    }
    if (!groups[g])
        return WEIR_OK;
    test_note("rank %d: kind %d, group %d, rows %d..%d by %d, columns %d..%d to %d..%d", me, kind,
              g, from.from, from.to, from.step, from.left, from.right, to.from, to.to);
    x = view(mine, &from);
    into = view(mine, &to);
    if (in_place && from.step == 1 && from.right - from.left == COLUMNS && kind == REDUCE) {
        st = weir_all_reduce_into(weir_group_self(groups[g]), x, WEIR_REDUCE_SUM, into);
    } else if (in_place && from.step == 1 && from.right - from.left == COLUMNS) {
        st = weir_broadcast_into(weir_group_self(groups[g]), x, root, into);
    } else {
        st = call(kind, weir_group_self(groups[g]), x, root, &y);
        if (!st)
            st = weir_copy_into(y, into);
    }
    weir_tensor_release(x);
    weir_tensor_release(y); /* at once: its memory may be the next call's, while peers read */
    weir_tensor_release(into);
    return st;
}

/* With KID_LOSE it runs until a rank is lost; all values are right until then. */
SCENARIO(reuse)
{
    int steps = getenv("KID_LOSE") ? INT32_MAX : STEPS / TEST_SLOWDOWN;
    bool lost = false;
    weir_status st = WEIR_OK;
    weir_device *dev;
    weir_group *world = join(&dev, NULL), *groups[GROUPS] = {NULL};
    int me = weir_rank_index(weir_group_self(world));
    uint64_t seed = strtoull(getenv("KID_SEED") ? getenv("KID_SEED") : "1", NULL, 10),
             own = seed * 77 + (uint64_t)me;
    weir_stream *streams[STREAMS];
    static uint8_t got[ROWS][COLUMNS];
    weir_tensor *mine;
    int64_t shape[] = {ROWS, COLUMNS};

    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < sizes[g]; i++)
            if (members[g][i] == me)
                CHECK_OK(weir_group_split(world, members[g], sizes[g], NULL, &groups[g]));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_create(dev, NULL, &streams[i]));
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < ROWS * COLUMNS; i++)
            model[r][i / COLUMNS][i % COLUMNS] = (uint8_t)(r * 31 + i * 7);
    CHECK_OK(weir_tensor_from(weir_stream_default(dev), WEIR_U8, 2, shape, model[me], &mine));
    for (int i = 0, at = -1; i < steps && !st; i++) {
        int next = (int)(draw(&own) % STREAMS);

        CHECK_OK(weir_stream_wait_stream(streams[next],
                                         at < 0 ? weir_stream_default(dev) : streams[at]));
        CHECK_OK(weir_stream_set_current(streams[next]));
        st = step(mine, groups, &seed, me);
        at = next;
        if (!st && i % 40 == 39 && !(st = weir_device_sync(dev))) {
            CHECK_OK(weir_tensor_read(mine, got, sizeof got));
            CHECK(!memcmp(got, model[me], sizeof got));
        }
        if (!st && i == 79 && getenv("KID_LOSE")) {
            say("ready\n");
            lost = lose_soon(world);
        }
    }
    if (st && getenv("KID_LOSE")) {
        say_error();
        while (lost)
            pause();
        for (int i = 0; i < STREAMS; i++) /* what they have queued fails, too */
            weir_stream_sync(streams[i]);
        goto free_all;
    }
    CHECK_OK(st);
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_tensor_read(mine, got, sizeof got));
    CHECK(!memcmp(got, model[me], sizeof got));

free_all:
    CHECK_OK(weir_stream_set_current(weir_stream_default(dev)));
    weir_tensor_release(mine);
    for (int g = 0; g < GROUPS; g++)
        CHECK_OK(weir_group_destroy(groups[g]));
    for (int i = 0; i < STREAMS; i++)
        CHECK_OK(weir_stream_destroy(streams[i]));
    leave(world, dev);
}

/* WEIR_SOAK=200 for as many programs. */
TEST_TIMEOUT(procs, random_programs_in_place_and_on_reused_memory_give_the_right_values, 1200)
{
    int programs = getenv("WEIR_SOAK") ? atoi(getenv("WEIR_SOAK")) : 4;

    for (int i = 1; i <= programs; i++) {
        char seed[40];

        snprintf(seed, sizeof seed, "KID_SEED=%d", i);
        test_note("%s", seed);
        kids_run(RANKS, "reuse", (const char *[]){seed, NULL});
    }
}

/* WEIR_SOAK=200 for as many. */
TEST_TIMEOUT(procs, ranks_lost_while_memory_is_reused_are_named, 3600)
{
    uint64_t seed = losses_seed(6);
    int runs = losses_runs(4);

    for (int i = 0; i < runs; i++) {
        char text[40];

        snprintf(text, sizeof text, "KID_SEED=%d", (int)(draw(&seed) % 1000));
        lose_one_of("reuse", RANKS, draw(&seed) % 2 ? 2 : 0, (enum how)(i % HOWS),
                    (const char *[]){text, NULL}, (long)(draw(&seed) % 20000));
    }
    losses_report("shm, while memory is reused");
}
