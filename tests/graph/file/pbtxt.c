/* Graph files: what they may say, and that dumps load as what they were. */
#include "graph/build/random_graph.h"

#include <locale.h>
#include <stdlib.h>

#include "graph/file/pbtxt_helpers.h"
#include "harness/test.h"
#include "tensor/kernel_params.h"

static const struct weir__node *node(const weir_graph *g, const char *name)
{
    for (int i = 0; i < g->nnodes; i++)
        if (!strcmp(g->nodes[i].name, name))
            return &g->nodes[i];
    FAIL("no node %s", name);
}

static void check_round_trip(weir_device *dev, const weir_graph *g)
{
    char *first = weir_graph_dump(g), *second;
    weir_graph *again;

    CHECK(first != NULL);
    CHECK_OK(weir_graph_load(dev, first, strlen(first), "dump", &again));
    second = weir_graph_dump(again);
    CHECK(second != NULL);
    CHECK_STR_EQ(second, first);
    CHECK_EQ(again->nnodes, g->nnodes);
    CHECK_EQ(again->ninputs, g->ninputs);
    CHECK_EQ(again->noutputs, g->noutputs);
    weir_graph_destroy(again);
    free(first);
    free(second);
}

#define X "node { name: 'x' op: 'Placeholder' " F32("2", "3") "}"
#define SIZES(a, b) "attr { key: 'shape' value { list { i: " a " i: " b " } } }"
#define F32(a, b) "attr { key: 'dtype' value { s: 'f32' } }" SIZES(a, b)

TEST(pbtxt, a_graph_of_all_parts)
{
    weir_device *dev = open_cpu();
    weir_graph *g =
        load(dev, X "node { name: 'y' op: 'Add' input: 'x' input: 'x:0' "
                    "attr { key: '_user_stream_label' value { s: '1' } }"
                    "attr { key: '_user_stream_priority' value { i: -3 } }"
                    "attr { key: '_op_aicore_num' value { i: 6 } }"
                    "attr { key: '_op_vectorcore_num' value { i: 12 } }"
                    "attr { key: '_super_kernel_scope' value { s: 'sk' } }"
                    "attr { key: '_super_kernel_options' value { s: 'stream-fusion=1' } } }"
                    "node { name: 'z' op: 'Relu' input: 'y' input: '^y' }"
                    "node { name: 'out' op: 'NetOutput' input: 'z' }");
    const struct weir__node *y = node(g, "y");

    CHECK_EQ(g->nnodes, 2);
    CHECK_EQ(g->ninputs, 1);
    CHECK_STR_EQ(g->values[g->inputs[0]].name, "x");
    CHECK_STR_EQ(g->labels[y->marks.stream], "1");
    CHECK_EQ(y->marks.priority, -3);
    CHECK_EQ(y->marks.limit.cube, 6);
    CHECK_EQ(y->marks.limit.vector, 12);
    CHECK_STR_EQ(g->super_kernels[y->marks.super_kernel].name, "sk");
    CHECK_STR_EQ(g->super_kernels[y->marks.super_kernel].options, "stream-fusion=1");
    CHECK_EQ(node(g, "z")->ncontrol, 1);
    CHECK_EQ(g->noutputs, 1);
    CHECK_STR_EQ(g->outputs[0].name, "z");
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, spellings_of_the_text_format)
{
    weir_device *dev = open_cpu();
    weir_graph *g =
        load(dev, "# a comment { with a brace\n"
                  "versions { producer: 27, min: [1, 2] }\n"
                  "library < function { signature { name: \"f\" } } >; unknown: 'x'\n"
                  "[ext.name] { a: 1 }\n"
                  "node: { name: \"x\" ; op: 'Place' \"hol\"\n  # between\n 'der'," F32(
                      "2", "3") "}\n"
                                "node < name: \"a\\142\\x63\\n\\u00e9\" op: 'Relu' input: ['x'] "
                                "device: \"/gpu:0\" experimental { } >");

    CHECK_STR_EQ(g->nodes[0].name, "abc\n\xc3\xa9");
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, texts_inside_strings_as_other_tools_dump_them)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(
        dev, "node { name: 'arg0_1' op: 'Data' "
             "attr { key: 'index' value { s: 'i: 0\\n' } }"
             "attr { key: '[i]x' value { s: 'name: \"x\"\\ndtype: DT_FLOAT16\\n' } }"
             "attr { key: '[o]y' value { s: 'name: \"y\"\\ndtype: DT_FLOAT16\\nlayout: \"ND\"\\n"
             "shape {\\n  dim: 4\\n  dim: 8\\n}\\ndevice_type: \"NPU\"\\n' } } }"
             "node { name: 'mm' op: 'BatchMatMulV2' input: 'arg0_1:0' input: 'arg0_1:0' "
             "attr { key: 'adj_x2' value { s: 'b: true\\n' } }"
             "attr { key: '_user_stream_label' value { s: 's: \"1\"\\n' } }"
             "attr { key: '_op_aicore_num' value { s: 's: \"6\"\\n' } }"
             "attr { key: '_op_vectorcore_num' value { s: '12' } } }"
             "node { name: 'NetOutput' op: 'NetOutput' input: 'mm:0' }");
    const struct weir__node *mm = node(g, "mm");

    CHECK_EQ(g->values[g->inputs[0]].view.dtype, WEIR_F16);
    CHECK_EQ(mm->in[1].view.shape[0], 8);
    CHECK_EQ(mm->out[0].view.shape[1], 4);
    CHECK_STR_EQ(g->labels[mm->marks.stream], "1");
    CHECK_EQ(mm->marks.limit.cube, 6);
    CHECK_EQ(mm->marks.limit.vector, 12);
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

/* A label that looks like such a text survives: it is dumped wrapped. */
TEST(pbtxt, a_string_that_looks_like_a_text_form_stays)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, X "node { name: 'y' op: 'Relu' input: 'x' attr { key: "
                                "'_user_stream_label' value { s: 's: \"i: 6\"' } } }");

    CHECK_STR_EQ(g->labels[g->nodes[0].marks.stream], "i: 6");
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, users_of_an_identity_run_after_its_control_inputs)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, X "node { name: 'a' op: 'Relu' input: 'x' }"
                                "node { name: 'b' op: 'Neg' input: 'x' }"
                                "node { name: 'w' op: 'Identity' input: 'x' input: '^a' }"
                                "node { name: 'w2' op: 'Identity' input: 'w' input: '^b' }"
                                "node { name: 'c' op: 'Exp' input: 'w' }"
                                "node { name: 'd' op: 'Add' input: 'w2' input: 'w' }"
                                "node { name: 'e' op: 'Tanh' input: 'x' input: '^w2' }");

    CHECK_EQ(node(g, "c")->ncontrol, 1);
    CHECK_EQ(node(g, "c")->control[0], 0);
    CHECK_EQ(node(g, "d")->ncontrol, 2);
    CHECK_EQ(node(g, "d")->in[0].value, g->inputs[0]);
    CHECK_EQ(node(g, "e")->ncontrol, 2);
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, a_node_may_come_before_what_it_needs)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, "node { name: 'c' op: 'Add' input: 'b' input: 'a' }"
                              "node { name: 'z' op: 'Neg' input: 'x' }"
                              "node { name: 'b' op: 'Relu' input: 'x' input: '^a' }"
                              "node { name: 'a' op: 'Exp' input: 'x' }" X);
    static const char *const order[] = {"a", "b", "c", "z"};

    for (int i = 0; i < 4; i++)
        CHECK_STR_EQ(g->nodes[i].name, order[i]);
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, constants_however_written)
{
    static const char *const values[] = {
        "attr { key: 'dtype' value { s: 'f32' } } attr { key: 'shape' value { list { i: 2 } } }"
        "attr { key: 'value' value { list { f: 1 f: -0.5 } } }",
        "attr { key: 'dtype' value { type: DT_FLOAT } }"
        "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } "
        "tensor_content: '\\000\\000\\200\\077\\000\\000\\000\\277' } } }",
        "attr { key: 'dtype' value { s: 'f32' } } attr { key: 'shape' value { list { i: 2 } } }"
        "attr { key: 'data' value { s: '0000803f000000bf' } }",
    };
    static const float expected[2] = {1, -0.5f};
    weir_device *dev = open_cpu();

    for (size_t i = 0; i < weir__countof(values); i++) {
        char text[800];
        float got[2];
        weir_graph *g;

        test_note("form %zu", i);
        snprintf(text, sizeof text,
                 "node { name: 'w' op: 'Const' %s } node { name: 'y' op: 'Neg' input: 'w' }",
                 values[i]);
        g = load(dev, text);
        CHECK_EQ(g->nconstants, 1);
        CHECK_OK(weir_tensor_read(g->values[g->constants[0]].constant, got, sizeof got));
        CHECK_MEM_EQ(got, expected, sizeof got);
        check_round_trip(dev, g);
        weir_graph_destroy(g);
    }
    close_cpu(dev);
}

TEST(pbtxt, views_are_folded_into_operands)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, X "node { name: 'row' op: 'View' input: 'x' "
                                "attr { key: 'offset' value { i: 3 } }"
                                "attr { key: 'shape' value { list { i: 3 } } } }"
                                "node { name: 'pair' op: 'View' input: 'row' "
                                "attr { key: 'offset' value { i: 1 } }"
                                "attr { key: 'shape' value { list { i: 2 } } }"
                                "attr { key: 'strides' value { list { i: 1 } } } }"
                                "node { name: 'y' op: 'Neg' input: 'pair' }"
                                "node { name: 'z' op: 'Relu' input: 'y' "
                                "attr { key: '_into' value { list { s: 'pair' } } } }");
    const struct weir__node *z = node(g, "z");

    CHECK_EQ(g->nnodes, 2);
    CHECK_EQ((intptr_t)g->nodes[0].in[0].view.data, 16);
    CHECK_EQ(g->nodes[0].in[0].view.shape[0], 2);
    CHECK_EQ(z->out[0].value, g->inputs[0]);
    CHECK_EQ((intptr_t)z->out[0].view.data, 16);
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, kernels_carry_their_cost)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, "node { name: 'gate' op: 'Kernel' }"
                              "node { name: 'rs' op: 'Kernel' input: '^gate' input: 'gate' "
                              "attr { key: 'engine' value { s: 'cube' } }"
                              "attr { key: 'blocks' value { i: 16 } }"
                              "attr { key: 'us_per_block' value { f: 40.25 } }"
                              "attr { key: 'bytes' value { i: 1048576 } }"
                              "attr { key: 'gang' value { b: true } }"
                              "attr { key: 'class' value { s: 'hccl' } }"
                              "attr { key: 'collective' value { s: 'rs' } } }");
    const struct weir__kernel_params *p = node(g, "rs")->params;

    CHECK_EQ(weir__kernel_engine(p), WEIR_ENGINE_CUBE);
    CHECK_EQ(p->blocks, 16);
    CHECK_NEAR(p->us_per_block, 40.25, 0);
    CHECK_EQ(p->bytes, 1048576);
    CHECK(p->gang);
    CHECK_STR_EQ(p->class, "hccl");
    CHECK_STR_EQ(p->collective, "rs");
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

/* A Kernel's result is a token of no bytes. Between Kernels it is an edge, written as it was read;
 * what others read stays a value. */
TEST(pbtxt, tokens_between_kernels_are_edges)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, "node { name: 'a' op: 'Kernel' }"
                              "node { name: 'b:7' op: 'Kernel' }"
                              "node { name: 'seen' op: 'Kernel' }"
                              "node { name: 'i' op: 'Identity' input: 'seen' }"
                              "node { name: 'c' op: 'Kernel' input: '^a' input: 'a' input: 'b:7:0' "
                              "input: 'a' input: 'seen' input: 'i' }"
                              "node { name: 'later' op: 'Kernel' input: 'sooner' }"
                              "node { name: 'sooner' op: 'Kernel' }");
    const struct weir__node *c = node(g, "c"), *later = node(g, "later");
    struct weir__edges edges;
    char *text = weir_graph_dump(g);

    CHECK_EQ(g->nvalues, 1); /* of 'seen' */
    CHECK_EQ(c->nin, 2);
    CHECK_EQ(c->ntokens, 3);
    CHECK_EQ(c->ncontrol, 4);
    CHECK_STR(text, "name: \"c\"\n  op: \"Kernel\"\n  input: \"seen\"\n  input: \"seen\"\n"
                    "  input: \"a\"\n  input: \"b:7:0\"\n  input: \"a\"\n  input: \"^a\"\n");
    CHECK_EQ(later->ntokens, 1);
    CHECK_OK(weir__graph_edges(g, &edges));
    CHECK_EQ(edges.first[c - g->nodes + 1] - edges.first[c - g->nodes], 3);
    CHECK(edges.preds[edges.first[later - g->nodes]] < later - g->nodes);
    weir__edges_fini(&edges);
    free(text);
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, numbers_are_written_as_people_write_them)
{
    static const char *const numbers[] = {"40", "3000", "-20", "0.25", "1e-09", "1e+300", "0.1"};
    weir_device *dev = open_cpu();

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[160], wanted[64];
        weir_graph *g;
        char *dump;

        snprintf(text, sizeof text,
                 "node { name: 'k' op: 'Kernel' attr { key: 'note' value { f: %s } } }",
                 numbers[i]);
        snprintf(wanted, sizeof wanted, "f: %s }", numbers[i]);
        g = load(dev, text);
        dump = weir_graph_dump(g);
        CHECK(dump && strstr(dump, wanted));
        free(dump);
        weir_graph_destroy(g);
    }
    close_cpu(dev);
}

TEST(pbtxt, numbers_ignore_the_locale)
{
    weir_device *dev;
    weir_graph *g;
    double value;

    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        SKIP("no locale with a decimal comma");
    dev = open_cpu();
    g = load(dev,
             X "node { name: 'y' op: 'Mul' input: 'x' attr { key: 'value' value { f: 0.1 } } }");
    memcpy(&value, g->nodes[0].params, sizeof value);
    CHECK_NEAR(value, 0.1, 0);
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

/* Every row of the table with every parameter set. */
TEST(pbtxt, parameters_of_every_operator_survive_a_round_trip)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(
        dev,
        X "node { name: 's' op: 'Sum' input: 'x' attr { key: 'dims' value { list { i: 1 } } }"
          "  attr { key: 'keepdim' value { b: true } } }"
          "node { name: 'c' op: 'Cast' input: 'x' attr { key: 'dtype' value { s: 'f32' } } }"
          "node { name: 'k' op: 'Clamp' input: 'x' attr { key: 'low' value { f: -inf } }"
          "  attr { key: 'high' value { f: 1e-30 } } }"
          "node { name: 't' op: 'TopK' input: 'x' attr { key: 'k' value { i: 2 } }"
          "  attr { key: 'dim' value { i: -1 } } attr { key: 'largest' value { b: true } } }"
          "node { name: 'n' op: 'LayerNorm' input: 'x' input: '' input: 'v' "
          "  attr { key: 'eps' value { f: 1e-5f } } }"
          "node { name: 'v' op: 'View' input: 'x' attr { key: 'shape' value { list { i: 3 } } } }"
          "node { name: 'i' op: 'Neg' input: 't:1' }"
          "node { name: 'r' op: 'RandomUniform' input: 's' attr { key: 'high' value { f: 1 } } }");

    CHECK_EQ(node(g, "s")->out[0].view.shape[1], 1);
    CHECK_EQ(node(g, "i")->out[0].view.dtype, WEIR_I64);
    CHECK_EQ(node(g, "n")->in[1].value, WEIR__NO_VALUE);
    check_round_trip(dev, g);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, random_graphs_survive_a_round_trip)
{
    weir_device *dev = open_cpu();

    for (uint64_t seed = 0; seed < 300 / TEST_SLOWDOWN; seed++) {
        struct random_graph_options o = random_graph_defaults(seed, 5 + (int)(seed % 60), 4);
        weir_graph *g;

        o.write_inputs = seed % 2;
        o.marks = 20;
        test_note("seed %d", (int)seed);
        g = random_graph(dev, &o);
        check_round_trip(dev, g);
        weir_graph_destroy(g);
    }
    close_cpu(dev);
}

TEST(pbtxt, names_that_look_like_syntax_survive_a_round_trip)
{
    const struct weir__op *relu = weir__op_find("Relu");
    struct weir__marks plain = {.super_kernel = -1};
    weir_device *dev = open_cpu();
    weir_graph *g;
    weir_tensor *x, *y, *z;
    int64_t shape[] = {4};

    CHECK_OK(weir_graph_create(dev, &g));
    CHECK_OK(weir_graph_input(g, "a", WEIR_F32, 1, shape, &x));
    CHECK_OK(weir__graph_add_call(g, relu, "a:1", NULL, &x, 1, NULL, &plain, &y));
    CHECK_OK(weir__graph_add_call(g, relu, "a", NULL, &y, 1, NULL, &plain, &z));
    CHECK_OK(weir_graph_output(g, "\"quoted\" and\ttabbed", z));
    check_round_trip(dev, g);
    weir_tensor_release(x);
    weir_tensor_release(y);
    weir_tensor_release(z);
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(pbtxt, dot_draws_streams_and_control)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, X "node { name: 'a' op: 'Relu' input: 'x' }"
                                "node { name: 'b\"q' op: 'Neg' input: 'x' input: '^a' "
                                "attr { key: '_user_stream_label' value { s: 'side' } } }");
    char *dot = weir_graph_dot(g);

    CHECK_STR(dot, "n0 -> n1 [style=\"dashed,bold\"]");
    CHECK_STR(dot, "b\\\"q\\nNeg on side");
    free(dot);
    weir_graph_destroy(g);
    close_cpu(dev);
}
