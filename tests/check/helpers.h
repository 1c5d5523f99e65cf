/* Common code of the tests of checks on graphs. */
#ifndef TESTS_CHECK_HELPERS_H
#define TESTS_CHECK_HELPERS_H

#include "harness/test.h"
#include "weir/weir.h"

/* Cube and vector cores of an Ascend die, on a device that is quick to open. */
#define TEST_DEVICE "cpu:cube=24,vector=48,threads=1"

struct ranks {
    weir_device *dev;
    weir_graph *graphs[8];
    size_t n;
};

static inline void ranks_open(struct ranks *r, const char *spec)
{
    *r = (struct ranks){.n = 0};
    CHECK_OK(weir_device_open(spec, &r->dev));
}

static inline void ranks_add(struct ranks *r, const char *text)
{
    CHECK_OK(weir_graph_load(r->dev, text, strlen(text), "test", &r->graphs[r->n]));
    r->n++;
}

static inline void ranks_close(struct ranks *r)
{
    for (size_t i = 0; i < r->n; i++)
        weir_graph_destroy(r->graphs[i]);
    CHECK_OK(weir_device_close(r->dev));
}

static inline weir_check_report *ranks_check(struct ranks *r, const weir_check_options *options)
{
    weir_check_report *report;

    CHECK_OK(weir_check_graphs(r->graphs, r->n, options, &report));
    return report;
}

/* A report on one graph, which is TEST_DEVICE's. */
static inline weir_check_report *check_text(const char *text)
{
    weir_check_report *report;
    struct ranks r;

    ranks_open(&r, TEST_DEVICE);
    ranks_add(&r, text);
    report = ranks_check(&r, NULL);
    ranks_close(&r); /* a report outlives what it is about */
    return report;
}

/* The first finding of that kind, or NULL. */
static inline const weir_finding *find(const weir_check_report *report, weir_finding_kind kind)
{
    for (size_t i = 0; i < report->nfindings; i++)
        if (report->findings[i].kind == kind)
            return &report->findings[i];
    return NULL;
}

static inline bool names(const weir_finding *f, const char *node)
{
    for (size_t i = 0; i < f->nnodes; i++)
        if (!strcmp(f->nodes[i], node))
            return true;
    return false;
}

#endif
