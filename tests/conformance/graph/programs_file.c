/* Files of random programs: a dump loads to the same graph, also with its attributes in another
 * order. */
#include "conformance/graph/programs_run.h"

#include <stdlib.h>

/* The file with the attributes of each node in the opposite order: to be freed. */
static char *turn_attributes(const char *text)
{
    size_t size = strlen(text);
    char *turned = malloc(size + 1), *to = turned;

    CHECK(turned != NULL);
    while (*text) {
        const char *end = text;
        size_t line;

        while (!strncmp(end, "  attr", 6))
            end = strchr(end, '\n') + 1;
        for (const char *at = end; at > text; at -= line) { /* the last line first */
            for (line = 1; at - line > text && at[-(ptrdiff_t)line - 1] != '\n';)
                line++;
            memcpy(to, at - line, line);
            to += line;
        }
        if (end == text) {
            end = strchr(text, '\n') + 1;
            memcpy(to, text, (size_t)(end - text));
            to += end - text;
        }
        text = end;
    }
    *to = 0;
    return turned;
}

static void check_same_file(weir_device *dev, const char *text, const char *as)
{
    weir_graph *loaded;
    char *again;

    if (weir_graph_load(dev, as, strlen(as), "turned", &loaded))
        FAIL("%s\n%s", weir_last_error(), as);
    again = weir_graph_dump(loaded);
    CHECK(again != NULL);
    CHECK_STR_EQ(again, text);
    free(again);
    weir_graph_destroy(loaded);
}

static void compare_file(weir_device *dev, uint64_t seed, bool open)
{
    struct program *p = malloc(sizeof *p);
    weir_tensor *constants[MAX_INPUTS] = {NULL};
    weir_graph *g, *loaded;
    weir_plan *plan;
    char *text, *again, *turned;

    program_make(p, dev, seed, open);
    program_switch_off(p);
    program_show(p);
    for (int i = p->ninputs - p->nconstants; i < p->ninputs; i++)
        constants[i] = program_input(p, dev, i, 0, 0);
    g = program_capture(p, dev, constants, seed & 1);
    text = weir_graph_dump(g);
    CHECK(text != NULL);
    if (weir_graph_load(dev, text, strlen(text), "dumped", &loaded))
        FAIL("seed %llu: %s\n%s", (unsigned long long)seed, weir_last_error(), text);
    again = weir_graph_dump(loaded);
    CHECK(again != NULL);
    CHECK_STR_EQ(again, text);
    turned = turn_attributes(text);
    check_same_file(dev, text, turned);
    plan = program_compile(loaded, seed, 1, "loaded");
    for (uint64_t round = 0; round < 2; round++)
        program_compare(p, dev, plan, weir_stream_default(dev), constants,
                        round && open && p->anonymous ? p->example + 1 : p->example, round,
                        "loaded");
    CHECK_OK(weir_device_sync(dev));
    weir_plan_destroy(plan);
    free(text);
    free(again);
    free(turned);
    weir_graph_destroy(g);
    weir_graph_destroy(loaded);
    program_release(constants, MAX_INPUTS);
    free(p);
}

CONFORMANCE(mixed_programs, survive_a_file)
{
    each_program(dev, 4, false, compare_file);
    each_program(dev, 4, true, compare_file);
}
