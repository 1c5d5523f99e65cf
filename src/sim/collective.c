/* The cost of collectives, by algorithm and topology. */
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

/* These must match the whole name; only digits may follow. */
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

/* A link level of the topology. */
struct link {
    double gb_s, us;
};

/* Returns the link level between `nranks` neighbouring dies. In a full mesh each pair of dies has
 * its own link, so few ranks use only a share of the links. */
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

/* The microseconds in which links are busy in an exchange of n ranks, each of which sends an equal
 * share of `bytes` to each rank. The cores write to peers of the same package, server and super
 * node; a network card sends the rest. One link serves both server and super node. */
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

    if (c->net_bytes > 0 && n > super) /* bytes from other servers also use the near links */
        return (struct spread){share * n / super * at_least(near, far),
                               c->net_bytes / 1e3 / p->net_gb_s};
    return (struct spread){share * at_least(near, far), share * (n - super) / p->net_gb_s};
}

/* Returns the time of one pass in which each of n ranks receives the others' shares of `bytes`. */
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

/* Returns the time that cores spend on an exchange besides moving data. Each peer gets a message
 * (counts, flags) besides its data, and exchange_flight messages are in flight at a time. A combine
 * knows what it will receive, so it has no such messages. */
static double handling_us(const struct weir__profile *p, const struct weir__collective *c,
                          double latency)
{
    double messages = latency * (c->nranks - 1) / p->exchange_flight;

    return c->kind == WEIR__DISPATCH  ? messages + c->bytes / (p->dispatch_gb_s * 1e3)
           : c->kind == WEIR__COMBINE ? c->bytes / (p->combine_gb_s * 1e3)
                                      : messages;
}

/* Returns the time of an exchange on `cores` cores relative to all cores: those of the profile that
 * this one inherits, from which the rates are, so that more cores do not make each one slower.
 * Mostly the links are the bottleneck, so a few cores are nearly as fast as all. */
static double slowdown(const struct weir__profile *p, double cores)
{
    double all = p->base.name[0] ? p->base.vector_cores : p->vector_cores;
    double share = cores > 0 ? at_most(p->vector_cores, cores) / all : 1;

    return (1 + p->exchange_share / share) / (1 + p->exchange_share);
}

/* Cores first pack, then write; meanwhile the network sends what they have given to it. */
static struct weir__collective_cost exchange(const struct weir__profile *p,
                                             const struct weir__collective *c, double latency)
{
    struct spread s = spread_of(p, c);
    /* the links of the fullest rank are the bottleneck; all ranks pack and add equally much */
    double efficiency = efficiency_of(p, c->kind) / at_least(1, c->uneven);
    double handling = handling_us(p, c, latency), links = s.cores / efficiency;
    /* data is forwarded in pieces, so all stages overlap */
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
        link = c->bytes / (far.gb_s * 1e3); /* all bytes pass every link once */
    } else if (algorithm == WEIR__ALGORITHM_HIERARCHICAL && n > inside) {
        struct link near = link_of(p, inside);

        /* first within servers, then between dies at the same position in each server */
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

/* Returns the larger of the bytes that a rank sends and receives, which together are `bytes`. A
 * gather sends one share and receives all n, a scatter the reverse; others send as much as they
 * receive. */
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
    /* Limit the draw on memory so that the collective takes its own time when it runs alone. */
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
