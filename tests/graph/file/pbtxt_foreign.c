/* Attributes that mean nothing to weir, and names that a file could not hold. */
#include <stdlib.h>

#include "graph/file/pbtxt_helpers.h"

static char warnings[4][400];
static int nwarnings;

static void keep_warning(void *user, weir_log_level level, const char *text)
{
    (void)user;
    if (level == WEIR_LOG_WARN && nwarnings < 4)
        snprintf(warnings[nwarnings++], sizeof warnings[0], "%s", text);
}

TEST(pbtxt, foreign_attributes_of_operators_are_kept_and_named)
{
    static const char text[] =
        "node { name: 'x' op: 'Data' attr { key: 'dtype' value { s: 'f32' } }"
        " attr { key: 'shape' value { list { i: 4 } } } attr { key: 'index' value { i: 0 } } }\n"
        "node { name: 'r' op: 'Relu' input: 'x'\n"
        "  attr { key: '_dropped by \"nobody\"' value { list { s: 'a' # here\n"
        "    'b' s: \"c\" } tensor < dim: [1, -2] x { y: true } > } }\n"
        "  attr { key: '_user_stream_label' value { s: 'side' } }\n"
        "  attr { key: '[o]y' value { s: 'dtype: DT_FLOAT' } } }\n"
        "node { name: 'out' op: 'NetOutput' input: 'r' }\n";
    weir_device *dev = open_cpu();
    weir_graph *g, *again;
    char *first, *second;

    weir_log_set(keep_warning, NULL, WEIR_LOG_WARN);
    g = load(dev, text);
    weir_log_set(NULL, NULL, WEIR_LOG_ERROR);
    CHECK_EQ(nwarnings, 2);
    CHECK_STR(warnings[0],
              "test: weir does not know attribute '_dropped by \"nobody\"' of node 'r'");
    CHECK_STR(warnings[0], "2 such");
    CHECK_STR(warnings[1], "'index' of node 'x'");
    first = weir_graph_dump(g);
    CHECK_STR(first, "key: \"_dropped by \\\"nobody\\\"\" value { list { s: 'a' # here\n    'b' "
                     "s: \"c\" } tensor { dim: 1 dim: -2 x { y: true } } }");
    CHECK_STR(first, "key: \"[o]y\" value { s: 'dtype: DT_FLOAT' }");
    again = load(dev, first);
    second = weir_graph_dump(again);
    CHECK_STR_EQ(first, second);
    free(first);
    free(second);
    weir_graph_destroy(g);
    weir_graph_destroy(again);
    close_cpu(dev);
}

TEST(pbtxt, names_that_read_as_control_inputs_are_refused_on_add)
{
    weir_device *dev = open_cpu();
    weir_tensor *x, *y;
    weir_graph *g;

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "x", WEIR_F32, 1, (int64_t[]){4}, &x));
    CHECK_STATUS(weir_graph_add(g, "Relu", "^r", NULL, 0, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "'^r'");
    CHECK_STATUS(weir_graph_add(g, "Relu", "", NULL, 0, &x, 1, &y, 1), WEIR_EINVAL);
    CHECK(!y);
    CHECK_OK(weir_graph_add(g, "Relu", "r^", NULL, 0, &x, 1, &y, 1));
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_graph_destroy(g);
    close_cpu(dev);
}
