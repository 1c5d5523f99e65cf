/* What collectives cost, by algorithm and topology. */
#include "sim/model.h"

#include <ctype.h>
#include <string.h>

const char *const weir__algorithm_names[WEIR__ALGORITHMS] = {"auto", "ring", "mesh",
                                                             "hierarchical"};

static const struct {
    const char *word;
    enum weir__comm_pattern kind;
} words[] = {
    {"allreduce", WEIR__ALL_REDUCE},
    {"reducescatter", WEIR__REDUCE_SCATTER},
    {"allgather", WEIR__ALL_GATHER},
    {"broadcast", WEIR__BROADCAST},
    {"dispatch", WEIR__DISPATCH},
    {"combine", WEIR__COMBINE},
    {"alltoall", WEIR__ALL_TO_ALL},
    {"barrier", WEIR__BARRIER},
    {"moedispatch", WEIR__DISPATCH},
    {"moecombine", WEIR__COMBINE},
    {"send", WEIR__SEND},
    {"recv", WEIR__SEND},
};

/* Those must be the whole name, before any number. */
static const struct {
    const char *word;
    enum weir__comm_pattern kind;
} short_words[] = {
    {"ar", WEIR__ALL_REDUCE}, {"rs", WEIR__REDUCE_SCATTER}, {"ag", WEIR__ALL_GATHER},
    {"ep", WEIR__ALL_TO_ALL}, {"a2a", WEIR__ALL_TO_ALL},
};

enum weir__comm_pattern weir__collective_kind(const char *name)
{
    char plain[32];
    size_t n = 0, letters;

    for (; *name && n + 1 < sizeof plain; name++)
        if (isalnum((unsigned char)*name))
            plain[n++] = (char)tolower((unsigned char)*name);
    plain[n] = 0;
    for (size_t i = 0; i < weir__countof(words); i++)
        if (!strncmp(plain, words[i].word, strlen(words[i].word)))
            return words[i].kind;
    for (size_t i = 0; i < weir__countof(short_words); i++) {
        letters = strlen(short_words[i].word);
        if (!strncmp(plain, short_words[i].word, letters) &&
            strspn(plain + letters, "0123456789") == strlen(plain + letters))
            return short_words[i].kind;
    }
    return WEIR__ALL_GATHER;
}

/* A level of the topology. */
struct link {
    double gb_s, us;
};

/* What `nranks` neighbouring dies have between them. On a full mesh each pair has a link of its
 * own: few ranks have few links. */
static struct link link_of(const struct weir__profile *p, double nranks)
{
    double share =
        p->node_mesh > 0 && nranks < p->node_dies ? (nranks - 1) / (p->node_dies - 1) : 1;

    if (nranks <= p->pair_dies)
        return (struct link){p->pair_gb_s, p->pair_us};
    if (nranks <= p->node_dies)
        return (struct link){p->node_gb_s * share, p->node_us};
    if (nranks <= p->super_dies)
        return (struct link){p->super_gb_s, p->super_us};
    return (struct link){p->net_gb_s, p->net_us};
}

uint32_t weir__span_between(const struct weir__model *m, uint32_t a, uint32_t b)
{
    const struct weir__profile *p = &m->profile;
    const double levels[] = {p->pair_dies, p->node_dies, p->super_dies};

    for (size_t i = 0; i < weir__countof(levels); i++)
        if (a / (uint32_t)levels[i] == b / (uint32_t)levels[i])
            return (uint32_t)levels[i];
    return (uint32_t)p->super_dies + 1;
}

static double at_most(double a, double b)
{
    return a < b ? a : b;
}

static double at_least(double a, double b)
{
    return a > b ? a : b;
}

/* Microseconds of the links when each rank has its share of `bytes` for each of n. Peers of a
 * package, and of the server or super node, are written to by the cores; a network card sends
 * what goes beyond. One link serves a server and its super node. */
struct spread {
    double cores, network;
};

static struct spread spread_of(const struct weir__profile *p, const struct weir__collective *c)
{
    double n = c->nranks, bytes = c->bytes;
    double pair = at_most(n, p->pair_dies), node = at_most(n, p->node_dies);
    double super = at_most(n, p->super_dies);
    double links = p->node_mesh > 0 ? (node - 1) / (p->node_dies - 1) : 1;
    double near = (pair - 1) / p->pair_gb_s;
    double far = p->super_dies > p->node_dies ? (super - pair) / p->super_gb_s
                 : links > 0                  ? (node - pair) / (p->node_gb_s * links)
                                              : 0;
    double share = bytes / n / 1e3;

    if (c->net_bytes > 0 && n > super) /* bytes from other servers pass the near links as well */
        return (struct spread){share * n / super * at_least(near, far),
                               c->net_bytes / 1e3 / p->net_gb_s};
    return (struct spread){share * at_least(near, far), share * (n - super) / p->net_gb_s};
}

/* One pass in which each of n ranks gets the others' shares of `bytes`. */
static double pass_us(struct link l, double n, double bytes)
{
    return (n - 1) / n * bytes / (l.gb_s * 1e3);
}

static bool is_exchange(enum weir__comm_pattern kind)
{
    return kind == WEIR__ALL_TO_ALL || kind == WEIR__DISPATCH || kind == WEIR__COMBINE;
}

static double efficiency_of(const struct weir__profile *p, enum weir__comm_pattern kind)
{
    return kind == WEIR__DISPATCH || kind == WEIR__COMBINE ? p->push_efficiency
                                                           : p->pull_efficiency;
}

/* What the cores do for an exchange beside moving it. Each peer gets a message beside its data
 * (counts, flags), and so many of those are under way at a time; a combine knows what comes and
 * waits for the data alone. */
static double handling_us(const struct weir__profile *p, const struct weir__collective *c,
                          double latency)
{
    double messages = latency * (c->nranks - 1) / p->exchange_flight;

    return c->kind == WEIR__DISPATCH  ? messages + c->bytes / (p->dispatch_gb_s * 1e3)
           : c->kind == WEIR__COMBINE ? c->bytes / (p->combine_gb_s * 1e3)
                                      : messages;
}

/* What an exchange takes on some of the cores, of what it takes on all: most of the time the links
 * hold them up, so that a few cores do nearly as well as all. */
static double slowdown(const struct weir__profile *p, double cores)
{
    double share = cores > 0 ? at_most(1, cores / p->vector_cores) : 1;

    return (1 + p->exchange_share / share) / (1 + p->exchange_share);
}

/* Cores pack and write one after the other; the network sends meanwhile what they gave it. */
static struct weir__collective_cost exchange(const struct weir__profile *p,
                                             const struct weir__collective *c, double latency)
{
    struct spread s = spread_of(p, c);
    /* the links of the fullest rank decide; what each packs and adds up is the same for all */
    double efficiency = efficiency_of(p, c->kind) / at_least(1, c->uneven);
    double handling = handling_us(p, c, latency), links = s.cores / efficiency;
    /* data is forwarded in pieces, so that all stages work at once */
    double cores = c->net_bytes > 0 ? at_least(handling, links) : handling + links;

    if (c->kind != WEIR__ALL_TO_ALL)
        cores *= slowdown(p, c->cores);

    return (struct weir__collective_cost){
        .us = latency + (c->kind == WEIR__ALL_TO_ALL ? 0 : p->exchange_us) +
              at_least(cores, s.network / efficiency),
        .link_us = at_least(s.cores, s.network) / efficiency,
    };
}

static struct weir__collective_cost cost_by(const struct weir__profile *p,
                                            const struct weir__collective *c,
                                            enum weir__algorithm algorithm)
{
    double n = c->nranks, inside = p->node_dies, link, latency;
    double passes = c->kind == WEIR__ALL_REDUCE ? 2 : 1;
    struct link far = link_of(p, c->span ? c->span : n);

    if (is_exchange(c->kind))
        return exchange(p, c, far.us);
    if (c->kind == WEIR__SEND && p->node_mesh > 0 && c->span <= p->node_dies)
        far.gb_s = p->node_gb_s / (p->node_dies - 1);
    latency =
        passes * far.us * (algorithm == WEIR__ALGORITHM_RING && c->kind != WEIR__SEND ? n - 1 : 1);
    if (c->kind == WEIR__BARRIER) {
        link = 0;
    } else if (c->kind == WEIR__BROADCAST || c->kind == WEIR__SEND) {
        link = c->bytes / (far.gb_s * 1e3); /* all of it passes every link once */
    } else if (algorithm == WEIR__ALGORITHM_HIERARCHICAL && n > inside) {
        struct link near = link_of(p, inside);

        /* within servers, then between the same places of each */
        link = passes *
               (pass_us(near, inside, c->bytes) + pass_us(far, n / inside, c->bytes / inside));
        latency = passes * (near.us + far.us);
    } else {
        link = passes * pass_us(far, n, c->bytes);
    }
    link /= efficiency_of(p, c->kind);
    return (struct weir__collective_cost){.us = latency + link, .link_us = link};
}

void weir__collective_find_cost(const struct weir__model *m, const struct weir__collective *c,
                                struct weir__collective_cost *out)
{
    const struct weir__profile *p = &m->profile;
    double wire = c->bytes * (c->kind == WEIR__ALL_REDUCE ? 2 : c->kind == WEIR__BARRIER ? 0 : 1);

    *out = (struct weir__collective_cost){0};
    if (c->nranks < 2)
        return;
    for (int a = WEIR__ALGORITHM_RING; a < WEIR__ALGORITHMS; a++) {
        struct weir__collective_cost by = cost_by(p, c, (enum weir__algorithm)a);

        if (m->algorithm != WEIR__ALGORITHM_AUTO && m->algorithm != (enum weir__algorithm)a)
            continue;
        if (!(out->us > 0) || by.us < out->us)
            *out = by;
    }
    /* bytes sent are read, bytes received are written */
    out->hbm_bytes = 2 * wire * (c->nranks - 1) / c->nranks;
}

/* The larger of what a rank gives and gets, which together are `bytes`. A gather gives one share
 * and gets all n, a scatter the other way; others give as much as they get. */
static double part_of(enum weir__comm_pattern kind, uint32_t nranks, double bytes)
{
    bool lopsided = kind == WEIR__ALL_GATHER || kind == WEIR__REDUCE_SCATTER;

    return lopsided ? bytes * nranks / (nranks + 1.0) : bytes / 2;
}

void weir__model_collective(const struct weir__model *m, const struct weir__collective *c,
                            struct weir__sim_op *op)
{
    bool on_cores = op->per_block[WEIR__POOL_VECTOR] || op->per_block[WEIR__POOL_CUBE];
    struct weir__collective with = *c;
    struct weir__collective_cost cost;
    struct weir__sim_limits limits;
    double most;

    with.cores = on_cores ? op->cores : 0;
    weir__model_limits(m, &limits);
    weir__collective_find_cost(m, &with, &cost);
    op->block_ps = weir__model_ps(cost.us);
    op->blocks = op->cores;
    memset(op->draws, 0, sizeof op->draws);
    if (!(cost.us > 0))
        return;
    /* Alone it takes its own time: the links are the slower of the two wherever they are
     * slower than memory. */
    most = (double)limits.flow[WEIR__FLOW_HBM] / op->cores;
    op->draws[WEIR__FLOW_HBM] = (uint64_t)at_most(most, cost.hbm_bytes * 1e6 / cost.us / op->cores);
    op->draws[WEIR__FLOW_LINK] =
        (uint64_t)((double)limits.flow[WEIR__FLOW_LINK] / op->cores * cost.link_us / cost.us);
}

void weir__model_take_no_cores(struct weir__sim_op *op)
{
    memset(op->per_block, 0, sizeof op->per_block);
}

void weir__model_group_op(const struct weir__model *m, struct weir__load *load,
                          struct weir__collective *c, struct weir__sim_op *out)
{
    load->comm = true;
    load->gang |= load->engine == WEIR_ENGINE_VECTOR && load->blocks > 1;
    weir__model_op(m, load, out);
    c->bytes = part_of(c->kind, c->nranks, load->bytes);
    if (c->nranks > 1)
        weir__model_collective(m, c, out);
    if (load->engine == WEIR_ENGINE_SDMA)
        weir__model_take_no_cores(out);
}
