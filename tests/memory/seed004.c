/* A tensor freed on the host while a slow operator of another stream still reads it,
 * its memory asked for again at once and overwritten. */
#include "helpers.h"

#include <stdlib.h>

enum { WORDS = 2048, ROUNDS = 10000, IN_FLIGHT = 64 };

struct read_args {
    const uint32_t *words;
    uint32_t value, spins;
    atomic_int *wrong;
};

/* Reads what it was promised, slowly. Atomic, so that a race is a wrong value here
 * rather than undefined. */
static weir_status read_kernel(const void *args, const weir_block *block)
{
    const struct read_args *a = args;
    bool wrong = false;

    (void)block;
    for (uint32_t i = 0; i < a->spins; i++)
        atomic_signal_fence(memory_order_seq_cst);
    for (int i = 0; i < WORDS; i++)
        wrong |= __atomic_load_n(&a->words[i], __ATOMIC_RELAXED) != a->value;
    if (wrong)
        atomic_fetch_add(a->wrong, 1);
    return WEIR_OK;
}

struct fill_args {
    uint32_t *words;
    uint32_t value;
};

static weir_status fill_kernel(const void *args, const weir_block *block)
{
    const struct fill_args *a = args;

    (void)block;
    for (int i = 0; i < WORDS; i++)
        __atomic_store_n(&a->words[i], a->value, __ATOMIC_RELAXED);
    return WEIR_OK;
}

static weir_tensor *filled(weir_stream *s, uint32_t value)
{
    weir_tensor *t;

    CHECK_OK(weir_tensor_empty(s, WEIR_I32, 1, (int64_t[]){WORDS}, &t));
    struct fill_args a = {weir_tensor_data(t), value};

    CHECK_OK(weir_launch_submit(s, &(weir_launch){.name = "fill",
                                                  .fn = fill_kernel,
                                                  .args = &a,
                                                  .args_size = sizeof a,
                                                  .work_ns = 1 + value % 2 * 5000,
                                                  .tensors = &t,
                                                  .ntensors = 1}));
    return t;
}

/* How many of the readers saw something else than what they were given. */
static int run_scenario(const char *spec, int rounds)
{
    weir_device *dev = open_device(spec);
    weir_stream *s0 = weir_stream_default(dev), *s1 = new_stream(dev, 0), *s2 = new_stream(dev, 0);
    uint64_t random = 88172645463325252u;
    atomic_int wrong = 0;

    for (int i = 0; i < rounds; i++) {
        weir_stream *reader = i % 3 ? s1 : s2;
        weir_tensor *t = filled(s0, (uint32_t)i);
        struct read_args a = {
            weir_tensor_data(t), (uint32_t)i,
            (uint32_t)(pick(&random, 8) ? pick(&random, 2000) : pick(&random, 60000)), &wrong};

        order_after(reader, s0);
        CHECK_OK(weir_launch_submit(reader, &(weir_launch){.name = "read",
                                                           .fn = read_kernel,
                                                           .args = &a,
                                                           .args_size = sizeof a,
                                                           .tensors = &t,
                                                           .ntensors = 1}));
        weir_tensor_release(t); /* the reader may not even have begun */
        weir_tensor_release(filled(s0, ~(uint32_t)i));
        if (i % IN_FLIGHT == IN_FLIGHT - 1)
            order_after(s0, reader); /* the return flow now and then */
        if (i % (16 * IN_FLIGHT) == 0)
            CHECK_OK(weir_device_sync(dev));
    }
    CHECK_OK(weir_device_sync(dev));
    CHECK_OK(weir_device_close(dev));
    return atomic_load(&wrong);
}

TEST(seed004, freed_memory_waits_for_its_readers)
{
    CHECK_EQ(run_scenario("cpu:cores=4,threads=3,jitter=11", ROUNDS), 0);
}

TEST(seed004, freed_memory_waits_for_its_readers_with_little_memory)
{
    CHECK_EQ(run_scenario("cpu:cores=4,threads=3,jitter=12,memory=128k", ROUNDS), 0);
}

TEST(seed004, freed_memory_waits_for_its_readers_with_poison)
{
    CHECK_EQ(run_scenario("cpu:cores=4,threads=3,jitter=13,poison=1", ROUNDS), 0);
}

/* The test is a real one: without the protection it fails. */
TEST(seed004, freed_memory_is_corrupted_with_the_protection_off)
{
#ifdef WEIR_DEBUG_HOOKS
    CHECK_EQ(setenv("WEIR_DEBUG_UNSAFE_POOL", "1", 1), 0);
    CHECK_GT(run_scenario("cpu:cores=4,threads=3,jitter=11", ROUNDS), 0);
#else
    SKIP("this build has no switch to turn the protection off (WEIR_DEBUG_HOOKS)");
#endif
}
