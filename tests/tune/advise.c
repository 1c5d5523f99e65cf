/* Advice: pairs and why they do not overlap, fights, limits, exposed communication. */
#include "helpers.h"

#include "graph/predict/advise.h"

static const struct weir__advice_pair *pair(const struct weir__advice *a, const char *first,
                                            const char *second)
{
    for (size_t i = 0; i < a->npairs; i++)
        if (!strcmp(weir__predict_node_name(&a->prediction, 0, a->pairs[i].first), first) &&
            !strcmp(weir__predict_node_name(&a->prediction, 0, a->pairs[i].second), second))
            return &a->pairs[i];
    return NULL;
}

TEST(advise, says_why_operators_do_not_overlap)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    struct weir__advice a;
    weir_graph *g;

    kernel(&p, "mm", "cube", 24, 50, NULL, NULL);
    kernel(&p, "act", "vector", 48, 20, "mm", NULL);
    kernel(&p, "free", "vector", 24, 40, NULL, NULL);
    kernel(&p, "rival", "cube", 24, 30, NULL, "side");
    g = load(dev, p.text);
    CHECK_OK(weir__advise(&g, 1, &a));

    CHECK(pair(&a, "mm", "act"));
    CHECK_EQ(pair(&a, "mm", "act")->why, WEIR__APART_DATA);
    CHECK(pair(&a, "mm", "free"));
    CHECK_EQ(pair(&a, "mm", "free")->why, WEIR__APART_STREAM);
    CHECK_EQ(pair(&a, "mm", "free")->most, US(40));
    CHECK_EQ(pair(&a, "mm", "free")->gain, US(30)); /* 110 to 80, the two cube operators */
    CHECK(pair(&a, "mm", "rival"));
    CHECK_EQ(pair(&a, "mm", "rival")->why, WEIR__APART_ENGINE);

    CHECK_EQ(a.nfights, 1);
    CHECK_STR_EQ(weir__predict_stream_name(&a.prediction, 0, a.fights[0].loser), "side");
    CHECK_EQ(a.fights[0].pool, WEIR__POOL_CUBE);
    CHECK_EQ(a.fights[0].waited, US(50));
    CHECK_EQ(a.ncomms, 0);
    weir__advice_fini(&a);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(advise, half_of_the_cores_cost_twice_the_time)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    struct weir__advice a;
    weir_graph *g;

    kernel(&p, "mm", "cube", 24, 50, NULL, NULL);
    g = load(dev, p.text);
    CHECK_OK(weir__advise(&g, 1, &a));
    CHECK_EQ(a.nlimits, 1);
    CHECK_EQ(a.limits[0].cores, 12);
    CHECK_EQ(a.limits[0].alone, US(50));
    CHECK_EQ(a.limits[0].limited, US(100));
    CHECK_EQ(a.limits[0].makespan, US(100));
    weir__advice_fini(&a);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}

TEST(advise, communication_is_exposed_where_nothing_computes)
{
    struct program p = {.size = 0};
    weir_device *dev = open_model();
    struct weir__advice a;
    weir_graph *g;

    kernel(&p, "copy", "sdma", 1, 100, NULL, "comm");
    kernel(&p, "mm", "cube", 24, 30, NULL, NULL);
    kernel(&p, "add", "vector", 48, 15, "mm", NULL);
    g = load(dev, p.text);
    CHECK_OK(weir__advise(&g, 1, &a));
    CHECK_EQ(a.ncomms, 1);
    CHECK_EQ(a.comms[0].took, US(100));
    CHECK_EQ(a.comms[0].exposed, US(55));
    weir__advice_fini(&a);
    weir_graph_destroy(g);
    CHECK_OK(weir_device_close(dev));
}
