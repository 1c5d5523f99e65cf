/* Attention that makes its grown keys and values itself: one launch, the same bits. */
#include "harness/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/plan/plan.h"
#include "weir/weir.h"

#define IN(name, rows)                                                                   \
    "node { name: '" name "' op: 'Placeholder' attr { key: 'dtype' value { s: 'f32' } }" \
    " attr { key: 'shape' value { list { i: 2 i: 3 i: " rows " i: 16 } } } }\n"
#define CAT(name, old, new)                             \
    "node { name: '" name "' op: 'Concat' input: '" old \
    "' input: '" new "'"                                \
                     " attr { key: 'dim' value { i: -2 } } }\n"

static const char grown[] = IN("q", "2") IN("k", "900") IN("v", "900") IN("k1", "1")
    IN("v1", "1") "node { name: 'kk' op: 'Add' input: 'k1' input: 'k1' }\n"
                  "node { name: 'vv' op: 'Add' input: 'v1' input: 'v1' }\n" CAT("keys", "k", "kk")
                      CAT("values", "v", "vv") "node { name: 'attend' op: 'Attention' input: 'q' "
                                               "input: 'keys' input: 'values' input: ''"
                                               " attr { key: 'scale' value { f: 0.25 } } }\n"
                                               "node { name: 'out' op: 'NetOutput' input: 'attend' "
                                               "input: 'keys' input: 'values' }\n";

static void run(weir_device *dev, weir_graph *g, weir_compile_mode mode, int launches,
                weir_tensor *const *in, weir_tensor **out)
{
    weir_plan_stats stats;
    weir_plan *plan;

    CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.mode = mode}, &plan));
    weir_plan_get_stats(plan, &stats, sizeof stats);
    CHECK_EQ(stats.launches, launches);
    CHECK_OK(weir_plan_run(plan, weir_stream_default(dev), in, 5, out, 3));
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
}

TEST(absorb, attention_concatenates_keys_and_values_in_its_own_launch)
{
    static const char *const specs[] = {"cpu:cores=1", "cpu"};
    weir_tensor *in[5], *one[3], *apart[3];

    for (size_t s = 0; s < weir__countof(specs); s++) {
        weir_device *dev;
        weir_graph *g;

        CHECK_OK(weir_device_open(specs[s], &dev));
        CHECK_OK(weir_graph_load(dev, grown, strlen(grown), "test", &g));
        for (int i = 0; i < 5; i++) {
            const int64_t shape[] = {2, 3, i == 0 ? 2 : i < 3 ? 900 : 1, 16};
            float *x;

            CHECK_OK(weir_tensor_empty(weir_stream_default(dev), WEIR_F32, 4, shape, &in[i]));
            x = weir_tensor_data(in[i]);
            for (int64_t k = 0; k < 6 * shape[2] * 16; k++)
                x[k] = (float)((k * 37 + i) % 101) / 50 - 1;
        }
        memset(one, 0, sizeof one);
        memset(apart, 0, sizeof apart);
        run(dev, g, WEIR_COMPILE_MAX_AUTOTUNE, 2, in, one); /* the two Adds are one as well */
        run(dev, g, WEIR_COMPILE_REDUCE_OVERHEAD, 5, in, apart);
        for (int i = 0; i < 3; i++) {
            size_t bytes = (size_t)weir__view_numel(&one[i]->view) * sizeof(float);

            CHECK(!memcmp(weir_tensor_data(one[i]), weir_tensor_data(apart[i]), bytes));
            weir_tensor_release(one[i]);
            weir_tensor_release(apart[i]);
        }
        for (int i = 0; i < 5; i++)
            weir_tensor_release(in[i]);
        weir_graph_destroy(g);
        weir_device_close(dev);
    }
}
