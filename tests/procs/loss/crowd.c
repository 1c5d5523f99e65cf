/* More than 64 ranks, each a process. */
#include "procs/kids.h"

/* Rank r has (r + i) % 3 rows for rank i: r * 1000 + i. */
static void exchange_uneven(weir_rank *self, weir_device *dev)
{
    int me = weir_rank_index(self), n = weir_group_size(weir_rank_group(self)), at = 0;
    int64_t send[MOST_KIDS], rows = 0, own = me % 3, counts[MOST_KIDS];
    int32_t data[3 * MOST_KIDS], got[3 * MOST_KIDS];
    weir_stream *s = weir_stream_default(dev);
    weir_tensor *x, *y;

    for (int i = 0; i < n; i++) {
        send[i] = (me + i) % 3; /* and as much from it */
        counts[i] = i % 3;
        for (int k = 0; k < send[i]; k++)
            data[rows++] = me * 1000 + i;
    }
    CHECK_OK(weir_tensor_from(s, WEIR_I32, 1, &rows, data, &x));
    CHECK_OK(weir_all_to_all_counts(self, x, send, send, &y));
    CHECK_EQ(weir_tensor_numel(y), rows);
    CHECK_OK(weir_tensor_read(y, got, (size_t)rows * sizeof *got));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < send[i]; k++)
            CHECK_EQ(got[at++], i * 1000 + me);
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_tensor_from(s, WEIR_I32, 1, &own, (int32_t[]){me, me + 1}, &x));
    CHECK_OK(weir_all_gather_counts(self, x, counts, &y));
    CHECK_OK(weir_tensor_read(y, got, (size_t)weir_tensor_numel(y) * sizeof *got));
    at = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < counts[i]; k++)
            CHECK_EQ(got[at++], i + k);
    CHECK_EQ(weir_tensor_numel(y), at);
    weir_tensor_release(x);
    weir_tensor_release(y);
}

SCENARIO(crowd)
{
    weir_device *dev;
    weir_group *g = join(&dev, NULL), *half;
    weir_rank *self = weir_group_self(g);
    weir_stream *s = weir_stream_default(dev);
    int me = weir_rank_index(self), n = weir_group_size(g), members[MOST_KIDS], nmembers = 0;
    int32_t mine[2] = {me, 1}, got[2 * MOST_KIDS];
    int64_t two = 2;
    weir_tensor *x, *y;

    CHECK_OK(weir_tensor_from(s, WEIR_I32, 1, &two, mine, &x));
    CHECK_OK(weir_all_reduce(self, x, WEIR_REDUCE_SUM, &y));
    CHECK_OK(weir_tensor_read(y, got, 2 * sizeof *got));
    CHECK_EQ(got[0], n * (n - 1) / 2);
    CHECK_EQ(got[1], n);
    weir_tensor_release(y);
    CHECK_OK(weir_all_gather(self, x, &y));
    CHECK_OK(weir_tensor_read(y, got, (size_t)n * 2 * sizeof *got));
    for (int r = 0; r < n; r++)
        CHECK_EQ(got[2 * r], r);
    weir_tensor_release(y);
    exchange_uneven(self, dev);
    CHECK_OK(weir_broadcast(self, x, n - 1, &y));
    CHECK_OK(weir_tensor_read(y, got, 2 * sizeof *got));
    CHECK_EQ(got[0], n - 1);
    /* Every other one, in a group of its own, and the last to the first. */
    for (int r = me % 2; r < n; r += 2)
        members[nmembers++] = r;
    CHECK_OK(weir_group_split(g, members, nmembers, NULL, &half));
    CHECK_OK(weir_all_reduce_into(weir_group_self(half), x, WEIR_REDUCE_MAX, y));
    CHECK_OK(weir_tensor_read(y, got, 2 * sizeof *got));
    CHECK_EQ(got[0], members[nmembers - 1]);
    if (me == n - 1)
        CHECK_OK(weir_send(self, x, 0));
    if (me == 0) {
        CHECK_OK(weir_recv(self, y, n - 1));
        CHECK_OK(weir_tensor_read(y, got, 2 * sizeof *got));
        CHECK_EQ(got[0], n - 1);
    }
    CHECK_OK(weir_barrier(self));
    CHECK_OK(weir_device_sync(dev));
    weir_tensor_release(x);
    weir_tensor_release(y);
    CHECK_OK(weir_group_destroy(half));
    leave(g, dev);
}
/* WEIR_SOAK for more than there may be counts in a call. */
TEST_TIMEOUT(procs, collectives_of_more_than_64_processes_give_the_values, 300)
{
    const char *const extra[] = {"KID_DEVICE=cpu:cores=1,op_timeout=60", NULL};
    static struct kids k;

    if (TEST_SANITIZED)
        SKIP("so many processes take a sanitizer too long");
    kids_start(&k, getenv("WEIR_SOAK") ? 104 : 66, "crowd", extra);
    kids_end_well(&k);
}

static void crowd_loses(int n, int victim)
{
    const char *const extra[] = {"KID_DEVICE=cpu:cores=1,op_timeout=60", NULL};

    lose_one(n, victim, KILL, extra, 1000);
    losses_report("shm, of 80 ranks");
}
TEST_TIMEOUT(procs, a_rank_of_many_that_is_killed_is_named_by_all_others, 300)
{
    if (TEST_SANITIZED || !getenv("WEIR_SOAK"))
        SKIP("it takes many processes: WEIR_SOAK runs it");
    crowd_loses(80, 77);
}
