/* Labels become streams. */
#include "graph/pass/synthetic.h"
#include "harness/test.h"

static void label_nodes(struct synthetic *s, const int *labels, int n)
{
    for (int v = 0; v < n; v++)
        s->g.nodes[v].marks.stream = labels[v];
}

TEST(streams, each_label_is_a_stream_in_order_of_first_use)
{
    struct synthetic_options o = {.nodes = 6, .streams = 4, .reads = 1};
    struct synthetic s;

    synthetic_init(&s, &o);
    label_nodes(&s, (int[]){0, 3, 1, 0, 3, 1}, 6);
    s.g.nodes[1].marks.priority = -2;
    synthetic_streams(&s);
    CHECK_EQ(s.c.nstreams, 3); /* nobody uses label 2 */
    CHECK(s.c.streams[0].tag == NULL);
    CHECK_STR_EQ(s.c.streams[1].tag, "3");
    CHECK_EQ(s.c.streams[1].priority, -2);
    CHECK_STR_EQ(s.c.streams[2].tag, "1");
    for (int v = 0; v < 6; v++) {
        CHECK_EQ(s.c.stream[v], v % 3);
        CHECK_EQ(s.c.position[v], v / 3);
        CHECK_EQ(weir__node_at(&s.c, v % 3, v / 3), v);
    }
    synthetic_fini(&s);
}

TEST(streams, dead_nodes_have_no_stream)
{
    struct synthetic_options o = {.nodes = 4, .streams = 3};
    struct synthetic s;

    synthetic_init(&s, &o);
    label_nodes(&s, (int[]){0, 1, 2, 0}, 4);
    s.c.live[1] = false;
    synthetic_streams(&s);
    CHECK_EQ(s.c.nstreams, 2);
    CHECK_EQ(s.c.stream[1], -1);
    CHECK_EQ(s.c.stream[2], 1);
    synthetic_fini(&s);
}

TEST(streams, single_stream_refuses_a_label_and_names_both)
{
    struct synthetic_options o = {.nodes = 4, .streams = 3};
    struct synthetic s;

    synthetic_init(&s, &o);
    label_nodes(&s, (int[]){0, 0, 2, 0}, 4);
    s.c.options.single_stream = true;
    CHECK_STATUS(weir__pass_streams(&s.c), WEIR_ECONFLICT);
    CHECK_STR_EQ(weir_last_error(), "Option single_stream=true conflicts with stream label \"2\"; "
                                    "set single_stream to false");
    label_nodes(&s, (int[]){0, 0, 0, 0}, 4);
    CHECK_OK(weir__pass_streams(&s.c));
    CHECK_EQ(s.c.nstreams, 1);
    synthetic_fini(&s);
}

TEST(streams, too_many_labels_are_refused)
{
    struct synthetic_options o = {.nodes = 1100, .streams = 1100};
    struct synthetic s;

    synthetic_init(&s, &o);
    for (int v = 0; v < o.nodes; v++)
        s.g.nodes[v].marks.stream = v;
    CHECK_STATUS(weir__pass_streams(&s.c), WEIR_ERANGE);
    CHECK_STR(weir_last_error(), "\"1024\"");
    CHECK_STR(weir_last_error(), "at most 1024 streams");
    synthetic_fini(&s);
}
