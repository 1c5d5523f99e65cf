/* Graph files that are too large to be held as text: they are read in pieces, twice. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/file/pbtxt_helpers.h"
#include "graph/file/pbtxt_source.h"

enum {
    ROW = 128,
    NODES = 600,
    FILLER = 32 << 10,
    WEIGHT = 640 << 10 /* elements: in hexadecimal 5 MiB */
};

struct large {
    char path[64];
    char *text;
    size_t size;
};

/* Nodes that name others, with comments between them that take room, and a constant that is larger
 * than a piece. `tail` ends the text. */
static struct large make_large(const char *tail)
{
    struct large l = {.path = "/tmp/weir-large-XXXXXX"};
    FILE *out = open_memstream(&l.text, &l.size);
    char *filler = malloc(FILLER + 1);
    int fd = mkstemp(l.path);
    char before[16], row[8 * ROW + 1];

    for (int k = 0; k < ROW; k++)
        sprintf(row + 8 * k, "%02x00803f", k);
    memset(filler, 'x', FILLER);
    filler[FILLER] = 0;
    fputs("node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { s: \"f32\" } } "
          "attr { key: \"shape\" value { list { i: 655360 } } } }\n",
          out);
    for (int i = 0; i < NODES; i++) {
        if (i == NODES / 2) {
            fputs(
                "node { name: \"w\" op: \"Const\" attr { key: \"dtype\" value { s: \"f32\" } } "
                "attr { "
                "key: \"shape\" value { list { i: 655360 } } } attr { key: \"data\" value { s: \"",
                out);
            for (int k = 0; k < WEIGHT / ROW; k++)
                fputs(row, out);
            fputs("\" } } }\n", out);
        }
        snprintf(before, sizeof before, "n%d", i - 1);
        fprintf(out,
                "# %s\nnode {\n  name: \"n%d\"\n  op: \"Add\"\n  input: \"%s\"\n  input: \"%s\"\n",
                filler, i, i ? before : "x", i < NODES / 2 ? "x" : "w");
        fprintf(out, "  attr { key: \"_user_stream_label\" value { s: \"s%d\" } }\n}\n", i % 3);
    }
    fputs(tail, out);
    fclose(out);
    free(filler);
    if (fd >= 0 && (size_t)write(fd, l.text, l.size) != l.size)
        l.size = 0;
    close(fd);
    return l;
}

static void remove_large(struct large *l)
{
    unlink(l->path);
    free(l->text);
}

TEST(pbtxt_large, a_large_file_gives_the_graph_that_its_text_gives)
{
    struct large l = make_large("node { name: \"out\" op: \"NetOutput\" input: \"n599\" }\n");
    weir_device *dev;
    weir_graph *whole, *pieces;
    char *a, *b;

    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    CHECK_LE((size_t)16 << 20, l.size);
    CHECK_OK(weir_graph_load(dev, l.text, l.size, "text", &whole));
    CHECK_OK(weir_graph_load_file(dev, l.path, &pieces));
    CHECK((a = weir_graph_dump(whole)));
    CHECK((b = weir_graph_dump(pieces)));
    CHECK(!strcmp(a, b)); /* they are long */
    free(a);
    free(b);
    weir_graph_destroy(whole);
    weir_graph_destroy(pieces);
    weir_device_close(dev);
    remove_large(&l);
}

TEST(pbtxt_large, an_error_far_into_a_large_file_names_its_line)
{
    static const struct {
        const char *tail, *place;
    } rows[] = {
        {"node { name: \"bad\" op: \"Add\" input: ]\n", ":4803:"},            /* of the text */
        {"node { name: \"bad\" op: \"Add\" input: \"nobody\" }\n", ":4803:"}, /* of names */
        {"node { name: \"bad\" op: \"Neg\" input: \"x\" input: \"x\" }\n", ":4803:"},
        {"node { name: \"bad\"\n", ":4803:"}, /* never closed */
    };
    weir_device *dev;

    CHECK_OK(weir_device_open("cpu:threads=1", &dev));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += TEST_THREADS_WATCHED ? 3 : 1) {
        struct large l = make_large(rows[i].tail);
        weir_graph *g;

        CHECK(weir_graph_load_file(dev, l.path, &g) != WEIR_OK);
        if (!strstr(weir_last_error(), rows[i].place))
            FAIL("row %zu: %s", i, weir_last_error());
        remove_large(&l);
    }
    weir_device_close(dev);
}

TEST(pbtxt_large, a_file_that_changes_while_it_is_read_is_refused)
{
    struct large l = make_large("");
    struct weir__pb_source *s;
    int fd;

    CHECK_OK(weir__pb_source_open(l.path, 1 << 20, (size_t)1 << 30, &s));
    CHECK_OK(weir__pb_source_need(s, 0, l.size));
    CHECK(!memcmp(weir__pb_source_data(s), l.text, l.size));
    weir__pb_source_keep(s, 0, 1);
    CHECK_OK(weir__pb_source_need(s, l.size - 10, l.size)); /* the same again */
    CHECK(!memcmp(weir__pb_source_data(s) + l.size - 10, l.text + l.size - 10, 10));
    weir__pb_source_keep(s, 0, 1);
    CHECK((fd = open(l.path, O_WRONLY)) >= 0);
    CHECK_EQ(pwrite(fd, "?", 1, (off_t)(2 * WEIR__PB_PIECE + 5)), 1);
    CHECK_STATUS(weir__pb_source_need(s, 2 * WEIR__PB_PIECE, 2 * WEIR__PB_PIECE + 1), WEIR_EIO);
    CHECK(!ftruncate(fd, 100));
    CHECK_STATUS(weir__pb_source_need(s, 3 * WEIR__PB_PIECE, 3 * WEIR__PB_PIECE + 1), WEIR_EIO);
    close(fd);
    weir__pb_source_close(s);
    remove_large(&l);
}
