/* Fails every allocation of a check that finds a deadlock and its remedy. */
#include "inject.h"

static const char spec[] = "cpu:cube=2,vector=4,threads=1";

static const char program[] =
    "node { name: 'rs' op: 'Kernel' attr { key: 'blocks' value { i: 1 } }"
    " attr { key: 'gang' value { b: true } } attr { key: 'collective' value { s: 'rs' } }"
    " attr { key: '_user_stream_label' value { s: '1' } } }\n"
    "node { name: 'dc' op: 'Kernel' attr { key: 'blocks' value { i: 2 } }"
    " attr { key: 'gang' value { b: true } } attr { key: 'collective' value { s: 'dc' } }"
    " attr { key: '_user_stream_label' value { s: '2' } } }\n"
    "node { name: 'nz' op: 'Kernel' attr { key: 'blocks' value { i: 4 } }"
    " attr { key: 'gang' value { b: true } } attr { key: 'class' value { s: 'ascendc' } }"
    " attr { key: '_op_aicore_num' value { i: 1 } }"
    " attr { key: '_user_stream_label' value { s: '3' } } }\n";

static void load(struct world *w)
{
    CHECK_OK(weir_graph_load(w->dev, program, sizeof program - 1, "program", &w->graph));
}

static weir_status check(struct world *w)
{
    weir_graph *ranks[2] = {w->graph, w->graph};
    weir_check_report *report = (void *)ranks;
    weir_status st = weir_check_graphs(ranks, 2, NULL, &report);

    if (st) {
        CHECK(!report);
        return st;
    }
    CHECK_EQ(report->nerrors, 1);
    CHECK_EQ(report->nfindings, 2); /* and the limit for cube cores, which does nothing */
    CHECK_EQ(report->findings[0].remedy.vector, 3);
    CHECK_EQ(report->findings[0].remedy.safe_vector, 1);
    weir_check_free(report);
    return WEIR_OK;
}

TEST_TIMEOUT(faults, checking_a_program_survives_any_failed_allocation, 120)
{
    inject_install();
    CHECK_GT(inject_each_in("check", spec, load, check), 200);
}

static weir_status check_file(struct world *w)
{
    static const char *const path[] = {"/tmp/weir-faults-check.pbtxt"};
    weir_check_report *report = (void *)path;
    weir_status st = weir_check_files(w->dev, path, 1, NULL, &report);

    if (st) {
        CHECK(!report);
        return st;
    }
    CHECK_EQ(report->nerrors, 1);
    CHECK_EQ(report->findings[0].kind, WEIR_FINDING_EVENT_CYCLE);
    weir_check_free(report);
    return WEIR_OK;
}

TEST(faults, checking_a_file_survives_any_failed_allocation)
{
    FILE *f = fopen("/tmp/weir-faults-check.pbtxt", "w");

    CHECK(f);
    fputs("node { name: 'a' op: 'Kernel' input: '^b' "
          "attr { key: '_user_stream_label' value { s: '1' } } }\n"
          "node { name: 'b' op: 'Kernel' "
          "attr { key: '_user_stream_label' value { s: '1' } } }\n",
          f);
    CHECK_EQ(fclose(f), 0);
    inject_install();
    CHECK_GT(inject_each("check a file", spec, check_file), 10);
    remove("/tmp/weir-faults-check.pbtxt");
}
