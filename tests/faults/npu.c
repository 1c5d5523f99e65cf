/* Fails every allocation of modelled devices and predictions. */
#include "inject.h"

#include "graph/predict/predict.h"

TEST(faults, opening_a_modelled_device_survives_any_failed_allocation)
{
    int failures = 0;

    inject_install();
    for (long n = 1;; n++) {
        weir_device *dev = NULL;
        weir_status st;

        test_note("allocation %ld", n);
        inject_arm(n);
        st = weir_device_open("npu:910_9362", &dev);
        if (!inject_disarm()) {
            CHECK_OK(st);
            CHECK_OK(weir_device_close(dev));
            break;
        }
        CHECK_EQ(st, WEIR_ENOMEM);
        CHECK(!dev);
        CHECK_EQ(inject_live(), 0);
        failures++;
    }
    CHECK_EQ(inject_live(), 0);
    CHECK_GT(failures, 8);
}

/* A deadlock of two ranks: the report is made as well. */
TEST(faults, predicting_a_graph_survives_any_failed_allocation)
{
    static const char text[] =
        "node { name: \"a\" op: \"Kernel\" attr { key: \"blocks\" value { i: 48 } }"
        " attr { key: \"us\" value { f: 5 } } }"
        "node { name: \"b\" op: \"Kernel\" input: \"a\""
        " attr { key: \"collective\" value { s: \"x\" } }"
        " attr { key: \"_user_stream_label\" value { s: \"s\" } } }"
        "node { name: \"c\" op: \"Kernel\" attr { key: \"gang\" value { b: true } }"
        " attr { key: \"blocks\" value { i: 64 } } }";
    const struct weir__predict_options options = {.memory = true};
    struct weir__prediction p;
    weir_graph *graphs[2];
    weir_device *dev;
    long live;
    int failures = 0;

    inject_install();
    CHECK_OK(weir_device_open("npu:a3", &dev));
    for (int i = 0; i < 2; i++)
        CHECK_OK(weir_graph_load(dev, text, sizeof text - 1, "two", &graphs[i]));
    live = inject_live();
    for (long n = 1;; n++) {
        weir_status st;

        test_note("allocation %ld", n);
        inject_arm(n);
        st = weir__predict(graphs, 2, &options, &p);
        if (!inject_disarm()) {
            CHECK_OK(st);
            CHECK(p.run.deadlock);
            weir__prediction_fini(&p);
            break;
        }
        CHECK_EQ(st, WEIR_ENOMEM);
        CHECK_EQ(inject_live(), live);
        failures++;
    }
    CHECK_EQ(inject_live(), live);
    CHECK_GT(failures, 30);
    weir_graph_destroy(graphs[0]);
    weir_graph_destroy(graphs[1]);
    CHECK_OK(weir_device_close(dev));
}
