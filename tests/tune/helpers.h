/* Graphs in a short notation, and their times. */
#ifndef WEIR_TEST_TUNE_HELPERS_H
#define WEIR_TEST_TUNE_HELPERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/predict/tune.h"
#include "harness/test.h"
#include "weir/weir.h"

#define DEVICE "npu:a3,overhead=off" /* 24 cube and 48 vector cores */

struct program {
    char text[65536];
    size_t size;
};

/* A kernel of `blocks` blocks of `us`; `after` names one it runs after, or two divided by a
 * space; NULL for none, as for the stream. */
static inline void kernel(struct program *p, const char *name, const char *engine, int blocks,
                          double us, const char *after, const char *stream)
{
    size_t room = sizeof p->text;
    char first[64] = "", second[64] = "";

    p->size += (size_t)snprintf(p->text + p->size, room - p->size,
                                "node {\n name: \"%s\"\n op: \"Kernel\"\n", name);
    if (after && sscanf(after, "%63s %63s", first, second) >= 1)
        p->size += (size_t)snprintf(p->text + p->size, room - p->size, " input: \"^%s\"\n", first);
    if (second[0])
        p->size += (size_t)snprintf(p->text + p->size, room - p->size, " input: \"^%s\"\n", second);
    p->size += (size_t)snprintf(p->text + p->size, room - p->size,
                                " attr { key: \"engine\" value { s: \"%s\" } }\n"
                                " attr { key: \"blocks\" value { i: %d } }\n"
                                " attr { key: \"us_per_block\" value { f: %g } }\n",
                                engine, blocks, us);
    if (stream)
        p->size +=
            (size_t)snprintf(p->text + p->size, room - p->size,
                             " attr { key: \"_user_stream_label\" value { s: \"%s\" } }\n", stream);
    p->size += (size_t)snprintf(p->text + p->size, room - p->size, "}\n");
    CHECK_LT(p->size, room);
}

static inline weir_device *open_model(void)
{
    weir_device *dev;

    CHECK_OK(weir_device_open(DEVICE, &dev));
    return dev;
}

static inline weir_graph *load(weir_device *dev, const char *text)
{
    weir_graph *g;

    CHECK_OK(weir_graph_load(dev, text, strlen(text), "test", &g));
    return g;
}

/* Picoseconds; UINT64_MAX for a deadlock. */
static inline uint64_t makespan(weir_graph *const *graphs, uint32_t nranks)
{
    struct weir__prediction p;
    uint64_t ps;

    CHECK_OK(
        weir__predict(graphs, nranks, &(struct weir__predict_options){.makespan_only = true}, &p));
    ps = p.run.deadlock ? UINT64_MAX : p.makespan;
    weir__prediction_fini(&p);
    return ps;
}

#define US(x) ((uint64_t)((x)*1000000))

#endif
