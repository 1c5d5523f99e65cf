/* Finds, before anything runs, that two cards can wait for each other for ever.
 *
 * Both have 48 vector cores. reduce_scatter takes 16 of them and dispatch_combine 24, and each
 * keeps them until the other card has come to the same operator. non_zero needs all 48 at
 * once; while it waits, it holds the cores that are free. The program asks weir whether that can
 * deadlock, limits non_zero to the cores that the report proposes, and asks again. */
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

static void must(weir_status status)
{
    if (status) {
        fprintf(stderr, "%s\n", weir_last_error());
        exit(1);
    }
}

static void add_kernel(weir_graph *card, const char *name, int64_t cores, const char *collective)
{
    const weir_attr attrs[] = {
        {"engine", WEIR_ATTR_STRING, {.s = "vector"}},
        {"blocks", WEIR_ATTR_INT, {.i = cores}},
        {"us_per_block", WEIR_ATTR_FLOAT, {.f = 40}},
        {"gang", WEIR_ATTR_BOOL, {.b = true}},
        {"collective", WEIR_ATTR_STRING, {.s = collective}},
    };
    weir_tensor *token;

    must(weir_graph_add(card, "Kernel", name, attrs, 5, NULL, 0, &token, 1));
    weir_tensor_release(token);
}

/* Three operators on three streams; a limit of 0 leaves non_zero as it is. */
static weir_graph *make_card(weir_device *dev, int limit)
{
    weir_graph *card;

    must(weir_graph_create(dev, &card));
    WEIR_STREAM_SCOPE("comm", 0)
    add_kernel(card, "reduce_scatter", 16, "rs");
    WEIR_STREAM_SCOPE("moe", 0)
    add_kernel(card, "dispatch_combine", 24, "dc");
    WEIR_STREAM_SCOPE("route", 0)
    WEIR_CORE_SCOPE(-1, limit ? limit : -1)
    add_kernel(card, "non_zero", 48, "");
    return card;
}

/* Prints the findings. Returns the limit for non_zero that prevents the deadlock, or 0 if none is
 * needed. */
static int check(weir_device *dev, int limit)
{
    weir_graph *card = make_card(dev, limit), *ranks[2] = {card, card};
    weir_check_report *report;
    int cure = 0;

    must(weir_check_graphs(ranks, 2, NULL, &report));
    printf("non_zero on %d vector cores: %zu errors\n", limit ? limit : 48, report->nerrors);
    for (size_t i = 0; i < report->nfindings; i++) {
        const weir_finding *f = &report->findings[i];

        if (!f->is_error)
            continue;
        for (size_t s = 0; s < f->nsteps; s++)
            printf("  %zu. %s\n", s + 1, f->steps[s]);
        for (size_t c = 0; c < f->ncycle; c++)
            printf("  - %s\n", f->cycle[c]);
        printf("  => %s\n", f->remedy.text ? f->remedy.text : "no remedy was found");
        cure = f->remedy.vector;
    }
    weir_check_free(report);
    weir_graph_destroy(card);
    return cure;
}

int main(void)
{
    weir_device *dev;
    int cure;

    must(weir_device_open("npu:a2", &dev));
    cure = check(dev, 0);
    if (cure)
        cure = check(dev, cure);
    must(weir_device_close(dev));
    return cure;
}
