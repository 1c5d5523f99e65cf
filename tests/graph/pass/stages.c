/* Dumps before and after each pass. */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "graph/file/pbtxt_helpers.h"

static const char text[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { s: 'f32' } }"
    " attr { key: 'shape' value { list { i: 4 } } } }\n"
    "node { name: 'c' op: 'Const' attr { key: 'dtype' value { s: 'f32' } }"
    " attr { key: 'shape' value { list { i: 4 } } }"
    " attr { key: 'value' value { list { f: 2 } } } }\n"
    "node { name: 'folded' op: 'Exp' input: 'c' }\n"
    "node { name: 'unused' op: 'Neg' input: 'x' }\n"
    "node { name: 'first' op: 'Mul' input: 'x' input: 'folded' }\n"
    "node { name: 'second' op: 'Relu' input: 'first'"
    " attr { key: '_user_stream_label' value { s: 'side' } } }\n"
    "node { name: 'out' op: 'NetOutput' input: 'second' }\n";

static const char *const passes[] = {"00_graph.pbtxt", "01_fold.pbtxt",  "02_edges.txt",
                                     "03_live.txt",    "04_streams.txt", "05_sync.txt",
                                     "06_super.txt",   "07_cores.txt",   "08_memory.txt",
                                     "09_check.txt",   "10_fuse.txt",    "11_plan.txt"};
enum { PASSES = sizeof passes / sizeof *passes };

/* What the only file of the directory with this ending holds; the file is removed. */
static char *take(const char *dir, const char *ending)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    char path[600] = "", *data = calloc(1, 1 << 16);
    FILE *file;

    CHECK(d != NULL);
    while ((entry = readdir(d)))
        if (strstr(entry->d_name, ending)) {
            CHECK_STR(entry->d_name, "weir_");
            CHECK_STR_EQ(path, "");
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        }
    closedir(d);
    CHECK((file = fopen(path, "r")) != NULL);
    CHECK_GT(fread(data, 1, (1 << 16) - 1, file), 0);
    fclose(file);
    unlink(path);
    return data;
}

static void check_files(weir_device *dev, const char *dir)
{
    char *files[PASSES];
    weir_graph *g;

    for (int i = 0; i < PASSES; i++)
        files[i] = take(dir, passes[i]);
    CHECK_STR(files[0], "op: \"Exp\"");
    CHECK(!strstr(files[1], "op: \"Exp\""));
    for (int i = 0; i < 2; i++) { /* graphs load again */
        CHECK_OK(weir_graph_load(dev, files[i], strlen(files[i]), passes[i], &g));
        CHECK_EQ(weir_graph_node_count(g), (size_t)(4 - i));
        weir_graph_destroy(g);
    }
    CHECK_STR(files[2], "second  Relu f32[4]  needs first\n");
    CHECK(!strstr(files[2], "dead"));
    CHECK_STR(files[3], "unused  Neg f32[4]  dead\n");
    CHECK(!strstr(files[3], "on side"));
    CHECK_STR(files[4], "needs first  on side #0\n");
    CHECK_STR(files[5], "on side #0  waits first\n");
    CHECK_STR(files[5], "(join)  waits second\n");
    CHECK(!strstr(files[7], "arena"));
    CHECK_STR(files[8], "out0 @0\n");
    CHECK_STR(files[8], "arena 64 bytes");
    CHECK_STR(files[11], "plan on cpu");
    for (int i = 0; i < PASSES; i++)
        free(files[i]);
    CHECK_EQ(rmdir(dir), 0); /* nothing else was written */
}

TEST(stages, each_pass_leaves_a_file_that_shows_what_it_did)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, text);
    weir_plan *plan;

    for (int by_variable = 0; by_variable < 2; by_variable++) {
        char dir[] = "/tmp/weir_stages_XXXXXX";
        weir_compile_options options = {.dump_dir = by_variable ? NULL : dir};

        CHECK(mkdtemp(dir) != NULL);
        if (by_variable)
            setenv("WEIR_GRAPH_DUMP", dir, 1);
        CHECK_OK(weir_graph_compile(g, &options, &plan));
        weir_plan_destroy(plan);
        CHECK_OK(weir_graph_compile(g, &(weir_compile_options){.dump_dir = ""}, &plan));
        weir_plan_destroy(plan);
        check_files(dev, dir);
    }
    weir_graph_destroy(g);
    close_cpu(dev);
}

TEST(stages, a_directory_that_is_not_there_is_named)
{
    weir_device *dev = open_cpu();
    weir_graph *g = load(dev, text);
    weir_plan *plan;

    CHECK_STATUS(
        weir_graph_compile(g, &(weir_compile_options){.dump_dir = "/nowhere/at/all"}, &plan),
        WEIR_EIO);
    CHECK(!plan);
    CHECK_STR(weir_last_error(), "/nowhere/at/all/weir_");
    weir_graph_destroy(g);
    close_cpu(dev);
}
