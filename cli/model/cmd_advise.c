/* `weir advise`: reports what keeps operators from overlapping, according to the model. */
#include "commands.h"
#include "json.h"
#include "ranks.h"
#include "term.h"

#include <math.h>
#include <stdio.h>

#include "graph/predict/advise.h"

#define DEFAULT_DEVICE "npu:a3"

enum { MOST_SHOWN = 12 }; /* rows of each table; --json prints all */

static double us(uint64_t ps)
{
    return ps == UINT64_MAX ? NAN : (double)ps / 1e6;
}

static const char *node_name(const struct weir__advice *a, uint32_t rank, uint32_t node)
{
    return weir__predict_node_name(&a->prediction, rank, node);
}

static const char *stream_of(const struct weir__advice *a, uint32_t rank, uint32_t node)
{
    const struct weir__predict_graph *pg = &a->prediction.graphs[a->prediction.graph_of[rank]];

    return weir__predict_stream_name(&a->prediction, rank, (uint32_t)pg->c.stream[node]);
}

/* ---- JSON ---- */

static void json_pairs(struct json *j, const struct weir__advice *a)
{
    json_array(j, "pairs");
    for (size_t i = 0; i < a->npairs; i++) {
        const struct weir__advice_pair *p = &a->pairs[i];

        json_object(j, NULL);
        json_int(j, "rank", p->rank);
        json_string(j, "first", node_name(a, p->rank, p->first));
        json_string(j, "second", node_name(a, p->rank, p->second));
        json_string(j, "why", weir__apart_names[p->why]);
        json_number(j, "overlap_us", us(p->most));
        if (p->why == WEIR__APART_STREAM)
            json_number(j, "gain_us", (double)p->gain / 1e6);
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_fights(struct json *j, const struct weir__advice *a)
{
    json_array(j, "fights");
    for (size_t i = 0; i < a->nfights; i++) {
        const struct weir__advice_fight *f = &a->fights[i];

        json_object(j, NULL);
        json_int(j, "rank", f->rank);
        json_string(j, "stream", weir__predict_stream_name(&a->prediction, f->rank, f->loser));
        json_string(j, "waits_for", weir__predict_stream_name(&a->prediction, f->rank, f->winner));
        json_string(j, "engine", weir__pool_names[f->pool]);
        json_number(j, "waited_us", us(f->waited));
        json_int(j, "times", f->times);
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_limits(struct json *j, const struct weir__advice *a)
{
    json_array(j, "limits");
    for (size_t i = 0; i < a->nlimits; i++) {
        const struct weir__advice_limit *l = &a->limits[i];

        json_object(j, NULL);
        json_int(j, "rank", l->rank);
        json_string(j, "node", node_name(a, l->rank, l->node));
        json_int(j, "cores", l->cores);
        json_number(j, "alone_us", us(l->alone));
        json_number(j, "limited_us", us(l->limited));
        json_number(j, "makespan_us", us(l->makespan));
        json_object_end(j);
    }
    json_array_end(j);
}

static void json_comms(struct json *j, const struct weir__advice *a)
{
    json_array(j, "communication");
    for (size_t i = 0; i < a->ncomms; i++) {
        const struct weir__advice_comm *c = &a->comms[i];

        json_object(j, NULL);
        json_int(j, "rank", c->rank);
        json_string(j, "node", node_name(a, c->rank, c->node));
        json_number(j, "took_us", us(c->took));
        json_number(j, "exposed_us", us(c->exposed));
        json_object_end(j);
    }
    json_array_end(j);
}

static void print_json(const struct weir__advice *a, const char *device)
{
    struct json j = {.out = stdout};

    json_object(&j, NULL);
    json_string(&j, "device", device);
    json_number(&j, "makespan_us", a->prediction.run.deadlock ? NAN : us(a->prediction.makespan));
    json_bool(&j, "deadlock", a->prediction.run.deadlock);
    json_pairs(&j, a);
    json_fights(&j, a);
    json_limits(&j, a);
    json_comms(&j, a);
    json_object_end(&j);
}

/* ---- text ---- */

static void print_pairs(const struct weir__advice *a)
{
    static const struct term_column columns[] = {
        {"up to us", true}, {"first", false}, {"second", false}, {"they do not, because", false}};
    struct term_table t = {.columns = columns, .ncolumns = weir__countof(columns)};

    printf("\npairs of operators that could overlap and do not\n");
    for (size_t i = 0; i < a->npairs && i < MOST_SHOWN; i++) {
        const struct weir__advice_pair *p = &a->pairs[i];
        char most[32], why[160];

        snprintf(most, sizeof most, "%.3f", us(p->most));
        switch (p->why) {
        case WEIR__APART_DATA:
            snprintf(why, sizeof why,
                     "the second needs the first; in two halves they would overlap");
            break;
        case WEIR__APART_STREAM:
            snprintf(why, sizeof why,
                     "both are on stream '%.40s'; on two streams the graph takes %.3f us %s",
                     stream_of(a, p->rank, p->second), fabs((double)p->gain / 1e6),
                     p->gain < 0 ? "more" : "less");
            break;
        case WEIR__APART_ENGINE:
            snprintf(why, sizeof why, "one holds the cores that the other waits for: limit one");
            break;
        default:
            snprintf(why, sizeof why, "others on '%.40s' and '%.40s' come between: reorder",
                     stream_of(a, p->rank, p->first), stream_of(a, p->rank, p->second));
            break;
        }
        term_table_add(&t, (const char *const[]){most, node_name(a, p->rank, p->first),
                                                 node_name(a, p->rank, p->second), why});
    }
    if (a->npairs)
        term_table_print(&t, 2);
    else
        printf("  none\n");
}

static void print_fights(const struct weir__advice *a)
{
    printf("\nstreams that compete for one engine\n");
    for (size_t i = 0; i < a->nfights && i < MOST_SHOWN; i++) {
        const struct weir__advice_fight *f = &a->fights[i];

        printf("  rank %u: '%s' waited %.3f us in %u operators for %s cores that '%s' had\n",
               f->rank, weir__predict_stream_name(&a->prediction, f->rank, f->loser), us(f->waited),
               f->times, weir__pool_names[f->pool],
               weir__predict_stream_name(&a->prediction, f->rank, f->winner));
    }
    if (!a->nfights)
        printf("  none\n");
}

static void print_limits(const struct weir__advice *a)
{
    static const struct term_column columns[] = {
        {"node", false}, {"cores", true}, {"all us", true}, {"half us", true}, {"graph us", true}};
    struct term_table t = {.columns = columns, .ncolumns = weir__countof(columns)};

    if (!a->nlimits)
        return;
    printf("\nwhat half of the cores would cost the longest operators, and the graph\n");
    for (size_t i = 0; i < a->nlimits && i < MOST_SHOWN; i++) {
        const struct weir__advice_limit *l = &a->limits[i];
        char cores[16], alone[32], limited[32], makespan[32];

        snprintf(cores, sizeof cores, "%d", l->cores);
        snprintf(alone, sizeof alone, "%.3f", us(l->alone));
        snprintf(limited, sizeof limited, "%.3f", us(l->limited));
        if (l->makespan == UINT64_MAX)
            snprintf(makespan, sizeof makespan, "deadlock");
        else
            snprintf(makespan, sizeof makespan, "%+.3f",
                     us(l->makespan) - us(a->prediction.makespan));
        term_table_add(&t, (const char *const[]){node_name(a, l->rank, l->node), cores, alone,
                                                 limited, makespan});
    }
    term_table_print(&t, 2);
}

static void print_comms(const struct weir__advice *a)
{
    if (!a->ncomms)
        return;
    printf("\nexposed communication\n");
    for (size_t i = 0; i < a->ncomms && i < MOST_SHOWN; i++)
        printf("  rank %u: '%s' takes %.3f us, %.3f us of it exposed\n", a->comms[i].rank,
               node_name(a, a->comms[i].rank, a->comms[i].node), us(a->comms[i].took),
               us(a->comms[i].exposed));
}

static void print_report(const struct weir__advice *a, const char *device)
{
    if (a->prediction.run.deadlock)
        printf("%sthe graph deadlocks%s on %s: `weir check` says how to avoid it; the tables\n"
               "below cover only what ran before the deadlock\n",
               term_on(TERM_BAD), term_off(), device);
    else
        printf("%.3f us on %s; %.3f us by dependencies and streams alone\n",
               us(a->prediction.makespan), device, us(a->prediction.critical));
    print_pairs(a);
    print_fights(a);
    print_limits(a);
    print_comms(a);
    printf("\n`weir tune` tries such changes together and keeps those that save time.\n");
}

/* ---- the command ---- */

static int advise(const struct cli_ranks *ranks, const char *device, bool json)
{
    struct weir__advice a;
    weir_status st = weir__advise(ranks->graphs, ranks->nranks, &a);
    bool deadlock;

    if (st)
        return cli_refuse_graph("advise", st);
    deadlock = a.prediction.run.deadlock;
    if (json)
        print_json(&a, device);
    else
        print_report(&a, device);
    weir__advice_fini(&a);
    return deadlock ? EXIT_FAILED : EXIT_FINE;
}

int weir_cmd_advise(int argc, char **argv)
{
    const char *spec = NULL;
    bool json = false;
    const struct cli_option options[] = {
        {"--device", "SPEC", "the modelled device; $WEIR_DEVICE or " DEFAULT_DEVICE, NULL, &spec},
        {"--ranks", "N", "the same graph on N devices", NULL, NULL},
        {"--rank", "R=FILE", "the graph of rank R; once for each rank", NULL, NULL},
        {"--json", NULL, "for machines", &json, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    const struct cli_usage usage = {
        .command = "advise",
        .synopsis = "FILE [--ranks N] [--device SPEC] | --rank R=FILE... [--device SPEC]",
        .about = "Says, by the modelled timeline, which operators could overlap and do not and\n"
                 "why, which streams wait for each other's cores, what a core limit would cost,\n"
                 "and which communication nothing hides. Changes nothing.",
        .options = options,
        .examples = "  weir advise layer.pbtxt --device npu:a3\n"
                    "  weir advise layer.pbtxt --ranks 8 --json\n",
        .max_words = 1,
        .words = "FILE",
    };
    struct cli_ranks ranks = {0};
    weir_device *dev = NULL;
    int nwords, status;

    if ((status = cli_ranks_take(&ranks, "advise", &argc, argv)) < 0 &&
        (status = cli_parse(&usage, argc, argv, &nwords)) < 0 &&
        (status = cli_ranks_words(&ranks, "advise", nwords, argv + 1)) < 0 &&
        (status = cli_open_model("advise", spec, DEFAULT_DEVICE, &dev)) < 0 &&
        (status = cli_ranks_load(&ranks, "advise", dev)) < 0)
        status = advise(&ranks, weir_device_name(dev), json);
    cli_ranks_free(&ranks);
    if (dev)
        weir_device_close(dev);
    return status;
}
