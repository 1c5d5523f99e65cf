/* Memory with two handles. */
#include "helpers.h"

#define WRITE(stream, tensor) CHECK_OK(touch(stream, "write", tensor, true))
#define READ(stream, tensor) CHECK_OK(touch(stream, "read", tensor, false))

static weir_tensor *lend(weir_stream *s, weir_tensor *t, int64_t from, int64_t n)
{
    weir_tensor *alias;

    CHECK_OK(weir_tensor_wrap(s, WEIR_F32, 1, &n, NULL, (float *)weir_tensor_data(t) + from, NULL,
                              NULL, &alias));
    return alias;
}

TEST(race_aliases, a_race_through_another_handle_of_the_same_memory_is_found)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 64), *alias = lend(f.b, t, 16, 16),
                *head = lend(f.c, t, 0, 16);

    WRITE(f.a, t);
    READ(f.b, alias); /* after the write of the whole, on another stream */
    CHECK_EQ(races(), 1);
    order(f.a, f.c);
    order(f.b, f.c);
    WRITE(f.c, head);
    CHECK_EQ(races(), 1);
    READ(f.a, t); /* the whole has the head in it */
    CHECK_EQ(races(), 2);
    weir_tensor_release(alias);
    weir_tensor_release(head);
    weir_tensor_release(t);
    close_fixture(&f);
}

TEST(race_aliases, handles_of_other_bytes_do_not_race)
{
    struct fixture f = open_fixture(WEIR_RACE_REPORT);
    weir_tensor *t = new_tensor(f.a, 64), *u = new_tensor(f.a, 64);
    weir_tensor *alias = lend(f.a, t, 0, 64), *tail = lend(f.b, u, 32, 32);

    WRITE(f.a, alias);
    order(f.a, f.b);
    WRITE(f.b, tail);
    READ(f.a, alias);
    READ(f.a, t);
    CHECK_EQ(races(), 0);
    weir_tensor_release(alias);
    weir_tensor_release(tail);
    weir_tensor_release(t);
    /* The memory of `t` is given anew; what the alias did to it is over with the alias. */
    t = new_tensor(f.b, 64);
    WRITE(f.b, t);
    CHECK_EQ(races(), 0);
    weir_tensor_release(t);
    weir_tensor_release(u);
    close_fixture(&f);
}
