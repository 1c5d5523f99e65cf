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
    {"allreduce", WEIR__ALL_REDUCE}, {"reducescatter", WEIR__REDUCE_SCATTER},
    {"allgather", WEIR__ALL_GATHER}, {"broadcast", WEIR__BROADCAST},
    {"dispatch", WEIR__DISPATCH},    {"combine", WEIR__ALL_TO_ALL},
    {"alltoall", WEIR__ALL_TO_ALL},  {"barrier", WEIR__BARRIER},
    {"moedispatch", WEIR__DISPATCH}, {"moecombine", WEIR__ALL_TO_ALL},
    {"send", WEIR__BROADCAST},       {"recv", WEIR__BROADCAST},
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

/* What `nranks` neighbouring dies have between them. */
static struct link link_of(const struct weir__profile *p, double nranks)
{
    if (nranks <= p->pair_dies)
        return (struct link){p->pair_gb_s, p->pair_us};
    if (nranks <= p->node_dies)
        return (struct link){p->node_gb_s, p->node_us};
    if (nranks <= p->super_dies)
        return (struct link){p->super_gb_s, p->super_us};
    return (struct link){p->net_gb_s, p->net_us};
}

/* One pass in which each of n ranks gets the others' shares of `bytes`. */
static double pass_us(struct link l, double n, double bytes, bool ring)
{
    return (n - 1) / n * bytes / (l.gb_s * 1e3) + (ring ? n - 1 : 1) * l.us;
}

/* Passes over all the bytes, one way. */
static double passes(enum weir__comm_pattern kind)
{
    return kind == WEIR__ALL_REDUCE ? 2 : 1;
}

static double exchange_us(const struct weir__profile *p, double peers)
{
    return p->exchange_us + peers * p->exchange_peer_us;
}

static double flat_us(const struct weir__profile *p, enum weir__comm_pattern kind, double n,
                      double bytes, double efficiency, bool ring)
{
    struct link l = link_of(p, n);
    double us;

    l.gb_s *= efficiency;
    us = passes(kind) * pass_us(l, n, bytes, ring);
    if (kind == WEIR__ALL_TO_ALL || kind == WEIR__DISPATCH)
        us += exchange_us(p, n - 1);
    return us;
}

/* Within servers, then between the same places of each, then within again. */
static double hierarchical_us(const struct weir__profile *p, enum weir__comm_pattern kind, double n,
                              double bytes, double efficiency)
{
    double inside = p->node_dies, outside = n / inside;
    struct link near = link_of(p, inside), far = link_of(p, n);

    near.gb_s *= efficiency;
    far.gb_s *= efficiency;
    if (kind == WEIR__ALL_TO_ALL || kind == WEIR__DISPATCH)
        return pass_us(near, inside, bytes, false) + pass_us(far, outside, bytes, false) +
               exchange_us(p, inside + outside - 2);
    return passes(kind) *
           (pass_us(near, inside, bytes, false) + pass_us(far, outside, bytes / inside, false));
}

double weir__collective_us(const struct weir__model *m, enum weir__comm_pattern kind,
                           uint32_t nranks, double bytes)
{
    const struct weir__profile *p = &m->profile;
    double efficiency = kind == WEIR__DISPATCH ? p->push_efficiency : p->pull_efficiency;
    double best = -1;

    if (nranks < 2)
        return 0;
    if (kind == WEIR__BARRIER)
        bytes = 0;
    for (int a = WEIR__ALGORITHM_RING; a < WEIR__ALGORITHMS; a++) {
        double us;

        if (m->algorithm != WEIR__ALGORITHM_AUTO && m->algorithm != (enum weir__algorithm)a)
            continue;
        us = a == WEIR__ALGORITHM_HIERARCHICAL && nranks > p->node_dies
                 ? hierarchical_us(p, kind, nranks, bytes, efficiency)
                 : flat_us(p, kind, nranks, bytes, efficiency, a == WEIR__ALGORITHM_RING);
        best = best < 0 || us < best ? us : best;
    }
    return best;
}

/* The larger of what a rank gives and gets, which together are `bytes`. A gather gives one share
 * and gets all n, a scatter the other way; others give as much as they get. */
static double part_of(enum weir__comm_pattern kind, uint32_t nranks, double bytes)
{
    bool lopsided = kind == WEIR__ALL_GATHER || kind == WEIR__REDUCE_SCATTER;

    return lopsided ? bytes * nranks / (nranks + 1.0) : bytes / 2;
}

void weir__model_collective(const struct weir__model *m, enum weir__comm_pattern kind,
                            uint32_t nranks, double bytes, struct weir__sim_op *op)
{
    struct weir__sim_limits limits;

    weir__model_limits(m, &limits);
    op->block_ps = weir__model_ps(weir__collective_us(m, kind, nranks, bytes));
    op->blocks = op->cores;
    op->draws[WEIR__FLOW_HBM] = op->draws[WEIR__FLOW_L2] = 0;
    op->draws[WEIR__FLOW_LINK] = limits.flow[WEIR__FLOW_LINK] / op->cores;
}

void weir__model_take_no_cores(struct weir__sim_op *op)
{
    memset(op->per_block, 0, sizeof op->per_block);
}

void weir__model_group_op(const struct weir__model *m, struct weir__load *load,
                          enum weir__comm_pattern kind, uint32_t nranks, struct weir__sim_op *out)
{
    load->comm = true;
    load->gang |= load->engine == WEIR_ENGINE_VECTOR && load->blocks > 1;
    weir__model_op(m, load, out);
    if (nranks > 1)
        weir__model_collective(m, kind, nranks, part_of(kind, nranks, load->bytes), out);
    if (load->engine == WEIR_ENGINE_SDMA)
        weir__model_take_no_cores(out);
}
