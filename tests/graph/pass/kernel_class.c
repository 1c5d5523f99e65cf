/* Which Kernel nodes a core limit reaches: the support table of the documents, by class and
 * engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass/compile.h"
#include "graph/plan/plan.h"
#include "harness/test.h"
#include "tensor/kernel_params.h"
#include "weir/weir.h"

static const struct {
    const char *class, *engine;
    bool obeys;
} table[] = {
    {"ascendc", "cube", true},  {"ascendc", "vector", true}, {"ascendc", "mix", true},
    {"", "cube", true},         {"", "vector", true},        {"tbe", "vector", true},
    {"tbe", "cube", false},     {"atb", "cube", false},      {"atb", "vector", false},
    {"hccl", "vector", true},   {"hccl", "host", false},     {"mc2", "vector", true},
    {"mc2", "cube", false},     {"aicpu", "host", false},    {"aicpu", "vector", false},
    {"static", "cube", false},  {"static", "vector", false}, {"ascendc", "sdma", false},
    {"ascendc", "host", false},
};

static int warnings;

static void count_warnings(void *user, weir_log_level level, const char *text)
{
    (void)user;
    warnings += level == WEIR_LOG_WARN && strstr(text, "no core limit") != NULL;
}

TEST(kernel_class, core_limits_apply_to_the_kernel_classes_of_the_table)
{
    weir_device *dev;

    CHECK_OK(weir_device_open("cpu:cube=24,vector=48", &dev));
    weir_log_set(count_warnings, NULL, WEIR_LOG_WARN);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[512];
        weir_graph *g;
        weir_plan *plan;
        const struct weir__node *n;
        char *list;

        test_note("class '%s' on %s", table[i].class, table[i].engine);
        snprintf(text, sizeof text,
                 "node { name: 'k' op: 'Kernel' attr { key: 'engine' value { s: '%s' } } "
                 "attr { key: 'class' value { s: '%s' } } attr { key: 'blocks' value { i: 20 } } "
                 "attr { key: '_op_aicore_num' value { i: 5 } } "
                 "attr { key: '_op_vectorcore_num' value { i: 10 } } }",
                 table[i].engine, table[i].class);
        warnings = 0;
        CHECK_OK(weir_graph_load(dev, text, strlen(text), "table", &g));
        CHECK_OK(weir_graph_compile(g, NULL, &plan));
        n = &plan->graph->nodes[0];
        CHECK_EQ(weir__node_obeys_limit(n), table[i].obeys);
        CHECK_EQ(plan->c.limit[0].cube, table[i].obeys ? 5 : 0);
        CHECK_EQ(plan->c.limit[0].vector, table[i].obeys ? 10 : 0);
        CHECK_EQ(warnings, !table[i].obeys);
        list = weir_plan_list(plan);
        CHECK_EQ(strstr(list, "takes no core limit") != NULL, !table[i].obeys);
        free(list);
        weir_plan_destroy(plan);
        weir_graph_destroy(g);
    }
    weir_log_set(NULL, NULL, WEIR_LOG_WARN);
    CHECK_OK(weir_device_close(dev));
}
