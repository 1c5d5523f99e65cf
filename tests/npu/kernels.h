/* Graphs of Kernel nodes, and their times on a modelled device. */
#ifndef TESTS_NPU_KERNELS_H
#define TESTS_NPU_KERNELS_H

#include <math.h>

#include "graph/predict/predict.h"
#include "harness/test.h"

struct kernel {
    const char *name, *engine, *stream;
    int blocks;
    double us, us_per_block;
    int64_t bytes;
    int cube, vector; /* limits */
    const char *after, *collective;
    bool gang;
};

static inline weir_graph *kernel_graph(weir_device *dev, const struct kernel *k, int n)
{
    struct weir__text t = {0};
    weir_graph *g;

    for (int i = 0; i < n; i++) {
        weir__text_add(&t, "node { name: \"%s\" op: \"Kernel\"\n", k[i].name);
        if (k[i].after)
            weir__text_add(&t, "input: \"^%s\"\n", k[i].after);
        weir__text_add(&t,
                       "attr { key: \"engine\" value { s: \"%s\" } }\n"
                       "attr { key: \"blocks\" value { i: %d } }\n"
                       "attr { key: \"us\" value { f: %.17g } }\n"
                       "attr { key: \"us_per_block\" value { f: %.17g } }\n"
                       "attr { key: \"bytes\" value { i: %lld } }\n"
                       "attr { key: \"gang\" value { b: %s } }\n",
                       k[i].engine, k[i].blocks ? k[i].blocks : 1, k[i].us, k[i].us_per_block,
                       (long long)k[i].bytes, k[i].gang ? "true" : "false");
        if (k[i].stream)
            weir__text_add(&t, "attr { key: \"_user_stream_label\" value { s: \"%s\" } }\n",
                           k[i].stream);
        if (k[i].collective)
            weir__text_add(&t, "attr { key: \"collective\" value { s: \"%s\" } }\n",
                           k[i].collective);
        if (k[i].cube)
            weir__text_add(&t,
                           "attr { key: \"_op_aicore_num\" value { i: %d } }\n"
                           "attr { key: \"_op_vectorcore_num\" value { i: %d } }\n",
                           k[i].cube, k[i].vector);
        weir__text_add(&t, "}\n");
    }
    CHECK_OK(weir_graph_load(dev, t.data, t.size, "kernels", &g));
    weir__text_free(&t);
    return g;
}

/* Microseconds of the makespan; the end of each kernel on rank 0 goes to ends[]. */
static inline double kernel_run(const char *spec, unsigned nranks, const struct kernel *k, int n,
                                double *ends)
{
    struct weir__prediction p;
    weir_graph *g, **graphs = calloc(nranks, sizeof(weir_graph *));
    weir_device *dev;
    double makespan;

    CHECK(graphs);
    CHECK_OK(weir_device_open(spec, &dev));
    g = kernel_graph(dev, k, n);
    for (unsigned i = 0; i < nranks; i++)
        graphs[i] = g;
    CHECK_OK(weir__predict(graphs, nranks, &(struct weir__predict_options){0}, &p));
    CHECK(!p.run.deadlock);
    makespan = (double)p.makespan / 1e6;
    for (int i = 0; i < n && ends; i++)
        ends[i] = (double)p.run.spans[0][i].end / 1e6;
    weir__prediction_fini(&p);
    weir_graph_destroy(g);
    free(graphs);
    CHECK_OK(weir_device_close(dev));
    return makespan;
}

#endif
