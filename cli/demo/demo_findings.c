/* Shows weir's checkers: a deadlock between two cards, and a race. */
#include "demo/demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

/* ---- the deadlock of two cards ---- */

#define ATTR(key, value) "attr { key: '" key "' value { " value " } } "
#define KERNEL(name, blocks, more)                                                              \
    "node { name: '" name "' op: 'Kernel' " ATTR("engine", "s: 'vector'")                       \
        ATTR("blocks", "i: " blocks) ATTR("us_per_block", "f: 40") ATTR("gang", "b: true") more \
        "} "
#define REDUCE_SCATTER             \
    KERNEL("reduce_scatter", "16", \
           ATTR("collective", "s: 'rs'") ATTR("_user_stream_label", "s: 'comm'"))
#define DISPATCH                     \
    KERNEL("dispatch_combine", "24", \
           ATTR("collective", "s: 'dc'") ATTR("_user_stream_label", "s: 'moe'"))
#define NON_ZERO(limit) KERNEL("non_zero", "48", limit ATTR("_user_stream_label", "s: 'route'"))
#define LIMIT(n) ATTR("_op_vectorcore_num", "i: " n)

static weir_check_report *check_ranks(weir_device *dev, const char *const *ranks)
{
    weir_graph *graphs[2];
    weir_check_report *report;

    for (int i = 0; i < 2; i++)
        demo_must(weir_graph_load(dev, ranks[i], strlen(ranks[i]), "demo", &graphs[i]));
    demo_must(weir_check_graphs(graphs, 2, NULL, &report));
    for (int i = 0; i < 2; i++)
        weir_graph_destroy(graphs[i]);
    return report;
}

static const weir_finding *deadlock_in(const weir_check_report *report)
{
    for (size_t i = 0; i < report->nfindings; i++)
        if (report->findings[i].kind == WEIR_FINDING_CORE_DEADLOCK)
            return &report->findings[i];
    return NULL;
}

bool demo_deadlock(struct json *j)
{
    static const char *const bad[] = {REDUCE_SCATTER NON_ZERO("") DISPATCH,
                                      DISPATCH NON_ZERO("") REDUCE_SCATTER};
    static const char *const good[] = {REDUCE_SCATTER NON_ZERO(LIMIT("32")) DISPATCH,
                                       DISPATCH NON_ZERO(LIMIT("32")) REDUCE_SCATTER};
    weir_check_report *before, *after;
    const weir_finding *found;
    weir_device *dev;
    bool fine;

    demo_must(weir_device_open("npu:a2", &dev));
    before = check_ranks(dev, bad);
    after = check_ranks(dev, good);
    found = deadlock_in(before);
    fine = found && found->remedy.vector == 32 && !after->nerrors;
    if (j) {
        json_object(j, "deadlock");
        json_bool(j, "found", found);
        json_int(j, "remedy_vector", found ? found->remedy.vector : 0);
        json_bool(j, "clean_with_remedy", !after->nerrors);
        json_object_end(j);
    } else {
        demo_headline(
            6, "A deadlock of two cards",
            "reduce_scatter holds 16 of 48 vector cores on one card, dispatch_combine holds 24 "
            "on the other, and non_zero needs all 48 on both. `weir check` finds the deadlock "
            "before the program runs:");
        for (size_t i = 0; found && i < found->ncycle; i++)
            term_paragraph(5, found->cycle[i]);
        if (found)
            term_paragraph(3, found->remedy.text);
        demo_verdict(found, "weir check finds the deadlock");
        demo_verdict(!after->nerrors,
                     "with the proposed limit the program is proved free of deadlocks");
    }
    weir_check_free(before);
    weir_check_free(after);
    demo_must(weir_device_close(dev));
    return fine;
}

/* ---- the race of the documents' first sample ---- */

/* B = matmul(A, A); on another stream: C = sum(B). Returns the number of races found. */
static size_t sample(weir_device *dev, bool wait)
{
    static const float values[400];
    weir_stream *home = weir_stream_default(dev), *s;
    weir_tensor *a, *b, *c;
    size_t n;

    demo_must(weir_race_set_mode(WEIR_RACE_REPORT));
    demo_must(weir_stream_create(dev, &(weir_stream_options){.name = "s"}, &s));
    demo_must(weir_tensor_from(home, WEIR_F32, 2, (int64_t[]){20, 20}, values, &a));
    demo_must(weir_matmul(a, a, &b));
    if (wait)
        demo_must(weir_stream_wait_stream(s, home));
    demo_must(weir_stream_set_current(s));
    demo_must(weir_sum(b, NULL, 0, false, &c));
    demo_must(weir_stream_set_current(home));
    n = weir_race_list(NULL, 0, 0);
    demo_must(weir_device_sync(dev));
    weir_tensor_release(a);
    weir_tensor_release(b);
    weir_tensor_release(c);
    weir_stream_destroy(s);
    return n;
}

/* Prints the report line by line, indented like the rest of the demo. */
static void print_report(char *report)
{
    for (char *line = report, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        if (*line)
            term_paragraph(5 + (int)strspn(line, " "), line + strspn(line, " "));
        else
            printf("\n");
    }
    printf("\n");
}

bool demo_race(struct json *j)
{
    weir_device *dev;
    size_t without, with;
    char *report;

    demo_must(weir_device_open("cpu", &dev));
    without = sample(dev, false);
    report = demo_need(weir_race_report());
    with = sample(dev, true);
    demo_must(weir_race_set_mode(WEIR_RACE_OFF));
    demo_must(weir_device_close(dev));
    if (j) {
        json_object(j, "race");
        json_int(j, "found", (int64_t)without);
        json_int(j, "with_wait", (int64_t)with);
        json_object_end(j);
    } else {
        demo_headline(
            7, "A missing wait",
            "The default stream computes B = matmul(A, A), another stream C = sum(B), and "
            "it does not wait for B. WEIR_CHECK=race reports:");
        print_report(report);
        demo_verdict(without == 1, "the race is found, and the missing wait is named");
        demo_verdict(!with, "with that wait there is no race");
    }
    free(report);
    return without == 1 && !with;
}
