/* Files that are wrong, by accident or on purpose: a clear error at the right place, and
 * time and memory in proportion to the file. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/file/pbtxt_helpers.h"

#define X                                                                          \
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { s: 'f32' } } " \
    "attr { key: 'shape' value { list { i: 2 i: 3 } } } }\n"
#define NODE(rest) X "node { name: 'y' " rest " }"
#define ATTR(key, value) "attr { key: '" key "' value { " value " } }"

static const struct {
    const char *text;
    weir_status status;
    const char *place, *says;
} wrong[] = {
    /* the text format */
    {"node {", WEIR_EPARSE, ":1:6: ", "never closed"},
    {"node { name: 'x'\n  op: }", WEIR_EPARSE, ":2:7: ", "found '}'"},
    {"node { name 'x' }", WEIR_EPARSE, ":1:13: ", "':' or '{'"},
    {"node { } }", WEIR_EPARSE, ":1:6: ", "needs a name"},
    {"a: 1 }", WEIR_EPARSE, ":1:6: ", "no matching opening bracket"},
    {"a { b: 1 >", WEIR_EPARSE, ":1:10: ", "no matching opening bracket"},
    {"a: [1 2]", WEIR_EPARSE, ":1:7: ", "',' or ']'"},
    {"a: [1, [2]]", WEIR_EPARSE, ":1:8: ", "a value"},
    {"a: [1,", WEIR_EPARSE, ":1:7: ", "found the end"},
    {"a: 'never\n closed'", WEIR_EPARSE, ":1:4: ", "does not end on its line"},
    {"a: 1\n\tb: \x01", WEIR_EPARSE, ":2:5: ", "0x01"},
    {"12: 3", WEIR_EPARSE, ":1:1: ", "a field name"},
    {"[a.b { }", WEIR_EPARSE, ":1:1: ", "never closed"},
    {"node { name: 'a\\q' op: 'Add' }", WEIR_EPARSE, ":1:16: ", "escape '\\q'"},
    {"node { name: 'a\\ud800' op: 'Nop' } node { name: 'b\\777' }", WEIR_EPARSE,
     ":1:51: ", "\\777"},
    {"node { name: 'a\\000b' op: 'Add' }", WEIR_EPARSE, ":1:14: ", "zero byte"},
    {"node { name: 3 op: 'Add' }", WEIR_EPARSE, ":1:14: ", "expected a string, found '3'"},
    {"node { op: 'Add' }", WEIR_EPARSE, ":1:6: ", "needs a name"},
    {"node { name: '^a' op: 'Add' }", WEIR_EPARSE, ":1:6: ", "begin with '^'"},
    {"node { name: 'a' }", WEIR_EPARSE, ":1:6: ", "'a' has no op"},
    {NODE("op: 'Add' attr { key: 'k' }"), WEIR_EPARSE, ":2:", "without a value"},
    {NODE("op: 'Add' attr { value { i: 1 } }"), WEIR_EPARSE, ":2:", "without a key"},
    {NODE("op: 'Relu' input: 'x:99999999999999'"), WEIR_EPARSE, ":2:", "index"},
    /* names */
    {NODE("op: 'Relu' input: 'nobody'"), WEIR_EINVAL, ":2:36: ", "no node is called 'nobody'"},
    {NODE("op: 'Relu' input: 'x' input: '^nobody'"), WEIR_EINVAL, ":2:47: ", "'nobody'"},
    {NODE("op: 'Relu' input: 'x:1'"), WEIR_EINVAL, ":2:36: ", "has no output 1"},
    {X X, WEIR_EINVAL, ":2:6: ", "a node 'x' already, at 1:6"},
    {NODE("op: 'Frobnicate' input: 'x'"), WEIR_EINVAL, ":2:6: ", "no operator 'Frobnicate'"},
    {NODE("op: 'Relu' input: 'y'"), WEIR_EINVAL, ":2:6: ", "'y' needs 'y'"},
    {"node { name: 'a' op: 'Relu' input: 'c' }\nnode { name: 'b' op: 'Relu' input: 'a' }"
     "node { name: 'c' op: 'Relu' input: 'b' input: '^b' }",
     WEIR_EINVAL, ":1:6: ", "'a' needs 'c' needs 'b' needs 'a'"},
    {NODE("op: 'NetOutput' input: 'x'") "node { name: 'z' op: 'Relu' input: 'y' }", WEIR_EINVAL,
     ":2:", "NetOutput has 0"},
    {NODE("op: 'NetOutput' input: 'x' input: 'x'"), WEIR_EINVAL, ":2:", "already"},
    /* what operators say */
    {NODE("op: 'Relu'"), WEIR_EINVAL, ":2:6: ", "node 'y': Relu takes 1..1 inputs, not 0"},
    {NODE("op: 'Relu' input: 'x' input: 'x'"), WEIR_EINVAL, ":2:6: ", "not 2"},
    {NODE("op: 'Relu' input: ''"), WEIR_EINVAL, ":2:6: ", "absent"},
    {NODE("op: 'MatMul' input: 'x' input: 'x'"), WEIR_EINVAL, ":2:6: ", "f32[2, 3]"},
    /* attributes */
    {NODE("op: 'Mul' input: 'x' " ATTR("value", "s: 'two'")), WEIR_EINVAL,
     ":2:", "'two', not a number"},
    {NODE("op: 'Mul' input: 'x' " ATTR("value", "list { f: 1 f: 2 }")), WEIR_EINVAL,
     ":2:", "more than 1"},
    {NODE("op: 'Mul' input: 'x' " ATTR("value", "")), WEIR_EINVAL, ":2:", "has 0 entries"},
    {NODE("op: 'Sum' input: 'x' " ATTR("dims", "list { i: [0,1,2,3,4,5,6,7,8] }")), WEIR_EINVAL,
     ":2:", "more than 8"},
    {NODE("op: 'Sum' input: 'x' " ATTR("dims", "list { i: 7 }")), WEIR_EINVAL, ":2:6: ", "7"},
    {NODE("op: 'Cast' input: 'x' " ATTR("dtype", "type: DT_STRING")), WEIR_EINVAL,
     ":2:", "data type"},
    {NODE("op: 'TopK' input: 'x' " ATTR("k", "i: 99999999999999999999")), WEIR_EINVAL,
     ":2:", "not an integer"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_user_stream_label", "i: 1")), WEIR_EINVAL,
     ":2:", "not a string"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_user_stream_label", "s: ''")), WEIR_EINVAL,
     ":2:", "empty"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_user_stream_priority", "i: 8")), WEIR_EINVAL,
     ":2:", "-8..7"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_super_kernel_options", "s: 'stream-fusion'")),
     WEIR_EINVAL, ":2:6: ", "'stream-fusion' is not key=value"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_super_kernel_options", "s: 'stream-fusion=yes'")),
     WEIR_EINVAL, ":2:6: ", "expected 0 or 1"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_op_aicore_num", "s: 'many'")), WEIR_EINVAL,
     ":2:", "not an integer"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_into", "s: 'x:7'")), WEIR_EINVAL, ":2:", "no output 7"},
    {NODE("op: 'Relu' input: 'x' " ATTR("_into", "list { s: 'x' s: 'x' }")), WEIR_EINVAL,
     ":2:", "names 2 outputs"},
    {NODE("op: 'Kernel' " ATTR("engine", "s: 'warp'")), WEIR_EINVAL, ":2:6: ", "no engine 'warp'"},
    {NODE("op: 'Kernel' " ATTR("engine", "s: 'aaaaaaaaaaaaaaaaaaaaaaaaaaa'")), WEIR_EINVAL,
     ":2:", "longer than"},
    {NODE("op: 'Kernel' " ATTR("blocks", "i: -1")), WEIR_EINVAL, ":2:6: ", "-1 blocks"},
    {NODE("op: 'Kernel' " ATTR("us", "f: nan")), WEIR_EINVAL, ":2:6: ", "finite"},
    {NODE("op: 'Kernel' " ATTR("us", "f: 1") ATTR("us_per_block", "f: 1")), WEIR_EINVAL,
     ":2:6: ", "exclude"},
    {NODE("op: 'Kernel' " ATTR("gang", "s: 'maybe'")), WEIR_EINVAL, ":2:", "true or false"},
    {NODE("op: 'Kernel' " ATTR("class", "s: 'cuda'")), WEIR_EINVAL, ":2:6: ", "no class 'cuda'"},
    /* inputs, constants and views */
    {"node { name: 'x' op: 'Data' }", WEIR_EINVAL, ":1:6: ", "no attribute 'dtype'"},
    {"node { name: 'x' op: 'Data' " ATTR("dtype", "s: 'f32'") "}", WEIR_EINVAL,
     ":1:6: ", "'shape'"},
    {NODE("op: 'Const' " ATTR("dtype", "s: 'f32'")
              ATTR("shape", "list { i: 4611686018427387904 i: 4 }")),
     WEIR_EINVAL, ":2:6: ", "63 bits"},
    {NODE("op: 'Const' " ATTR("dtype", "s: 'f32'") ATTR("shape", "list { i: 1000000000000 }")),
     WEIR_EINVAL, ":2:6: ", "not spelt out"},
    {NODE("op: 'Const' " ATTR("dtype", "s: 'u8'") ATTR("shape", "list { i: 2 }")
              ATTR("data", "s: '00'")),
     WEIR_EINVAL, ":2:", "4 hexadecimal digits"},
    {NODE("op: 'Const' " ATTR("dtype", "s: 'u8'") ATTR("shape", "list { i: 1 }")
              ATTR("data", "s: 'zz'")),
     WEIR_EINVAL, ":2:", "'zz'"},
    {NODE("op: 'Const' " ATTR("dtype", "s: 'i8'") ATTR("shape", "list { i: 1 }")
              ATTR("value", "i: 200")),
     WEIR_EINVAL, ":2:", "does not fit i8"},
    {NODE("op: 'Const' " ATTR("dtype", "s: 'i8'") ATTR("shape", "list { i: 3 }")
              ATTR("value", "list { i: [1, 2] }")),
     WEIR_EINVAL, ":2:", "has 2 values, the shape needs 3"},
    {NODE("op: 'View' input: 'x'"), WEIR_EINVAL, ":2:6: ", "'shape'"},
    {NODE("op: 'View' " ATTR("shape", "list { i: 1 }")), WEIR_EINVAL, ":2:6: ", "needs an input"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 7 }")), WEIR_EINVAL,
     ":2:6: ", "beyond the 6"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 6 }") ATTR("offset", "i: 1")),
     WEIR_EINVAL, ":2:6: ", "beyond"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 1 }") ATTR("offset", "i: -1")),
     WEIR_EINVAL, ":2:6: ", "beyond"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 1 }")
              ATTR("offset", "i: 9223372036854775807")),
     WEIR_EINVAL, ":2:6: ", "beyond"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 3 i: 3 }")
              ATTR("strides", "list { i: 9223372036854775807 i: 1 }")),
     WEIR_EINVAL, ":2:6: ", "beyond"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 3 }")
              ATTR("strides", "list { i: -1 }")),
     WEIR_EINVAL, ":2:6: ", "negative"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 3 }")
              ATTR("strides", "list { i: 1 i: 1 }")),
     WEIR_EINVAL, ":2:6: ", "1 sizes but 2 strides"},
    {NODE("op: 'View' input: 'x' " ATTR("shape", "list { i: 3 }")
              ATTR("strides", "list { i: 0 }")) "node { name: 'f' op: 'Fill' input: 'y' }",
     WEIR_EINVAL, ":2:", "expanded"},
};

TEST(pbtxt_hostile, errors_name_the_place_and_the_thing)
{
    weir_device *dev = open_cpu();

    for (size_t i = 0; i < weir__countof(wrong); i++) {
        weir_graph *g;

        test_note("%s", wrong[i].text);
        CHECK_STATUS(weir_graph_load(dev, wrong[i].text, strlen(wrong[i].text), "file", &g),
                     wrong[i].status);
        CHECK_PTR_EQ(g, NULL);
        CHECK_STR(weir_last_error(), "file:");
        CHECK_STR(weir_last_error(), wrong[i].place);
        CHECK_STR(weir_last_error(), wrong[i].says);
    }
    close_cpu(dev);
}

/* Whatever is cut off, the rest is an error or a graph, never more. */
TEST(pbtxt_hostile, truncated_anywhere)
{
    static const char text[] = X "node { name: 'w' op: 'Const' " ATTR("dtype", "s: 'f32'")
        ATTR("shape", "list { i: [2, 3] }")
            ATTR("value",
                 "list { f: [1, 2, 3, 4, 5, 6e0] }") "}"
                                                     "node { name: 'y' op: 'Add' input: 'x' 'y'  # "
                                                     "comment\n input: \"\\x77\" " ATTR(
                                                         "_user_stream_label", "s: 's: \"1\"'") "}";
    weir_device *dev = open_cpu();
    weir_graph *g;

    for (size_t size = 0; size < sizeof text - 1; size++) {
        char *copy = malloc(size + 1); /* of its own, so that reading on is seen */

        CHECK(copy != NULL);
        memcpy(copy, text, size);
        if (!weir_graph_load(dev, copy, size, "cut", &g))
            weir_graph_destroy(g);
        free(copy);
    }
    close_cpu(dev);
}

TEST(pbtxt_hostile, files_that_cannot_be_read)
{
    weir_device *dev = open_cpu();
    weir_graph *g;

    CHECK_STATUS(weir_graph_load_file(dev, "/nonexistent/file.pbtxt", &g), WEIR_EIO);
    CHECK_STR(weir_last_error(), "/nonexistent/file.pbtxt: No such file");
    CHECK_STATUS(weir_graph_load_file(dev, "/", &g), WEIR_EIO);
    CHECK_STATUS(weir_graph_load_file(dev, "/dev/null", &g), WEIR_OK);
    CHECK_EQ(weir_graph_node_count(g), 0);
    weir_graph_destroy(g);
    close_cpu(dev);
}

/* A file of holes: refused by its size, before any of it is read. */
TEST(pbtxt_hostile, a_file_of_a_gigabyte_is_refused_at_once)
{
    const char *dir = getenv("TMPDIR");
    weir_device *dev = open_cpu();
    weir_graph *g;
    char path[512];
    int fd;

    snprintf(path, sizeof path, "%s/weir-huge-XXXXXX", dir ? dir : "/tmp");
    CHECK((fd = mkstemp(path)) >= 0);
    CHECK_EQ(ftruncate(fd, (off_t)1 << 30), 0);
    CHECK_STATUS(weir_graph_load_file(dev, path, &g), WEIR_EPARSE);
    CHECK_STR(weir_last_error(), "is larger than 512");
    close(fd);
    unlink(path);
    close_cpu(dev);
}

/* ---- size: an allocator that counts ---- */

static atomic_size_t live, peak;

static void *count_alloc(void *user, size_t size, size_t align)
{
    size_t *p = NULL, now, high;

    (void)user;
    if (align < 64)
        align = 64;
    if (posix_memalign((void **)&p, align, size + align))
        return NULL;
    now = atomic_fetch_add(&live, size) + size;
    for (high = atomic_load(&peak); now > high;)
        if (atomic_compare_exchange_weak(&peak, &high, now))
            break;
    p = (size_t *)((char *)p + align);
    p[-1] = size;
    p[-2] = align;
    return p;
}

static void count_free(void *user, void *ptr)
{
    size_t *p = ptr;

    (void)user;
    if (!p)
        return;
    atomic_fetch_sub(&live, p[-1]);
    free((char *)ptr - p[-2]);
}

static weir_device *open_counted(void)
{
    CHECK_OK(weir_allocator_set(&(weir_allocator){count_alloc, count_free, NULL}));
    return open_cpu();
}

enum { HUGE_TEXT = (16 << 20) / (TEST_THREADS_WATCHED ? 16 : TEST_SLOWDOWN) };

/* `before`, HUGE_TEXT bytes of `piece` again and again, `after`. */
static weir_status load_huge(weir_device *dev, const char *before, const char *piece,
                             const char *after, size_t *used)
{
    size_t head = strlen(before), n = strlen(piece), tail = strlen(after), body = HUGE_TEXT / n * n;
    char *text = malloc(head + body + tail);
    weir_graph *g;
    weir_status st;

    CHECK(text != NULL);
    memcpy(text, before, head);
    for (size_t i = 0; i < body; i += n)
        memcpy(text + head + i, piece, n);
    memcpy(text + head + body, after, tail);
    atomic_store(&peak, atomic_load(&live));
    *used = atomic_load(&live);
    st = weir_graph_load(dev, text, head + body + tail, "huge", &g);
    *used = atomic_load(&peak) - *used;
    weir_graph_destroy(g);
    free(text);
    return st;
}

TEST(pbtxt_hostile, one_token_of_16_mb_costs_no_memory)
{
    static const struct {
        const char *before, *piece, *after;
        weir_status status;
        const char *says;
    } rows[] = {
        {"", "a", "", WEIR_EPARSE, "found the end"},
        {"", "7", "", WEIR_EPARSE, "a field name"},
        {"a: ", "7", "", WEIR_OK, NULL},
        {"a: '", "x", "'", WEIR_OK, NULL},
        {"a: '", "x", "", WEIR_EPARSE, "does not end"},
        {"a: '", "\\'", "", WEIR_EPARSE, "does not end"},
        {"a: ", "'' ", "", WEIR_OK, NULL},
        {"", " ", "", WEIR_OK, NULL},
        {"#", "x", "", WEIR_OK, NULL},
        {"node { name: '", "x", "' op: 'Add' }", WEIR_EPARSE, "too long for a name"},
        {"node { name: 'k' op: 'Kernel' attr { key: '_user_stream_label' value { s: '", "x",
         "' } } }", WEIR_EPARSE, "too long for a name"},
        {"node { name: 'k' op: 'Kernel' attr { key: 'blocks' value { i: ", "7", " } } }",
         WEIR_EINVAL, "not an integer"},
        {"", "a{", "", WEIR_EPARSE, "more than 64 deep"},
        {"a: ", "[", "", WEIR_EPARSE, "a value"},
        {"", "}", "", WEIR_EPARSE, "no matching opening bracket"},
        {"", "a{b:1}", "", WEIR_OK, NULL},
        {"a: [", "1,", "1]", WEIR_OK, NULL},
        {"[", "x", "", WEIR_EPARSE, "never closed"},
    };
    weir_device *dev = open_counted();
    size_t used;

    for (size_t i = 0; i < weir__countof(rows); i++) {
        test_note("row %zu: %s%s", i, rows[i].before, rows[i].piece);
        CHECK_STATUS(load_huge(dev, rows[i].before, rows[i].piece, rows[i].after, &used),
                     rows[i].status);
        if (rows[i].says)
            CHECK_STR(weir_last_error(), rows[i].says);
        CHECK_LT(used, 64 << 10);
    }
    close_cpu(dev);
}

/* Records cost a few times their text, so hundreds of megabytes at most. */
TEST_TIMEOUT(pbtxt_hostile, many_small_things_stay_in_proportion, 120)
{
    weir_device *dev = open_counted();
    size_t used;

    CHECK_STATUS(load_huge(dev, "node { name: 'k' op: 'Kernel' ", "input:'k'", "}", &used),
                 WEIR_EINVAL);
    CHECK_LT(used, 10u * HUGE_TEXT);
    CHECK_STATUS(
        load_huge(dev, "node { name: 'k' op: 'Kernel' ", "attr{key:''value{}}", "}", &used),
        WEIR_OK);
    CHECK_LT(used, 10u * HUGE_TEXT);
    CHECK_STATUS(load_huge(dev, "", "node{name:'k'op:'k'}", "", &used), WEIR_EINVAL);
    CHECK_LT(used, 10u * HUGE_TEXT);
    close_cpu(dev);
}

/* A chain written backwards, and Identities that each hand on one more edge. */
TEST_TIMEOUT(pbtxt_hostile, long_chains_take_linear_time, 60)
{
    enum { N = 100000 };
    weir_device *dev = open_cpu();
    struct weir__text text = {0};
    weir_graph *g;

    for (int i = 0; i < N; i++)
        weir__text_add(&text, "node{name:'k%d'op:'Kernel'input:'k%d'}", i, i + 1);
    weir__text_add(&text, "node{name:'k%d'op:'Kernel'}", N);
    CHECK_OK(weir_graph_load(dev, text.data, text.size, "chain", &g));
    CHECK_EQ(weir_graph_node_count(g), N + 1);
    weir_graph_destroy(g);
    text.size = 0;
    weir__text_add(&text, "node{name:'i0'op:'Kernel'}");
    for (int i = 1; i < N; i++)
        weir__text_add(&text,
                       "node{name:'k%d'op:'Kernel'}node{name:'i%d'op:'Identity'input:'i%d'"
                       "input:'^k%d'}",
                       i, i, i - 1, i);
    CHECK_STATUS(weir_graph_load(dev, text.data, text.size, "waits", &g), WEIR_EINVAL);
    CHECK_STR(weir_last_error(), "hands on more than");
    weir__text_free(&text);
    close_cpu(dev);
}
