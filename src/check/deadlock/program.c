/* Builds programs. */
#include "check/deadlock/program.h"

#include <string.h>

weir_status weir__check_program_init(struct weir__check_program *p, int nranks)
{
    *p = (struct weir__check_program){.nranks = nranks};
    if (!(p->ranks = weir__calloc((size_t)nranks, sizeof *p->ranks)))
        return weir__fail_nomem("allocating a program of %d ranks", nranks);
    return WEIR_OK;
}

static void rank_fini(struct weir__check_rank *rank)
{
    for (int i = 0; i < rank->nops; i++) {
        weir__free(rank->ops[i].name);
        weir__free(rank->ops[i].after);
        weir__free(rank->ops[i].meet);
    }
    for (int i = 0; i < rank->nstreams; i++) {
        weir__free(rank->streams[i].name);
        weir__free(rank->streams[i].ops);
    }
    weir__free(rank->ops);
    weir__free(rank->streams);
}

void weir__check_program_fini(struct weir__check_program *p)
{
    for (int r = 0; p->ranks && r < p->nranks; r++)
        rank_fini(&p->ranks[r]);
    for (int i = 0; i < p->nrendezvous; i++) {
        weir__free(p->rendezvous[i].name);
        weir__free(p->rendezvous[i].op);
    }
    weir__free(p->ranks);
    weir__free(p->rendezvous);
    *p = (struct weir__check_program){0};
}

int weir__check_add_stream(struct weir__check_rank *rank, const char *name, int priority)
{
    char *copy = weir__strdup(name);

    if (!copy ||
        !weir__grow(&rank->streams, rank->nstreams, &rank->cap_streams, sizeof *rank->streams)) {
        weir__free(copy);
        weir__fail_nomem("allocating stream '%s' of a program", name);
        return -1;
    }
    rank->streams[rank->nstreams] = (struct weir__check_stream){.name = copy, .priority = priority};
    return rank->nstreams++;
}

/* True if the rank has not joined the rendezvous yet, and has joined the one before it. */
static bool may_join(const struct weir__check_program *p, int rendezvous, int rank,
                     const char *name)
{
    const struct weir__check_rendezvous *m = &p->rendezvous[rendezvous];

    return m->op[rank] < 0 && (m->before < 0 || p->rendezvous[m->before].op[rank] >= 0) &&
           !strcmp(m->name, name);
}

static int join_rendezvous(struct weir__check_program *p, int rank, int op, const char *name)
{
    struct weir__check_rendezvous m = {.before = -1, .needs = p->nranks, .pair = {-1, -1}};

    for (int i = 0; i < p->nrendezvous; i++) {
        int at = (p->last_rendezvous + 1 + i) % p->nrendezvous;

        if (may_join(p, at, rank, name)) {
            p->rendezvous[at].op[rank] = op;
            p->rendezvous[at].count++;
            return p->last_rendezvous = at;
        }
    }
    for (int i = 0; i < p->nrendezvous; i++)
        if (!strcmp(p->rendezvous[i].name, name))
            m.before = i;
    m.k = m.before < 0 ? 0 : p->rendezvous[m.before].k + 1;
    m.name = weir__strdup(name);
    m.op = weir__malloc((size_t)p->nranks * sizeof *m.op);
    if (!m.name || !m.op ||
        !weir__grow(&p->rendezvous, p->nrendezvous, &p->cap_rendezvous, sizeof *p->rendezvous)) {
        weir__free(m.name);
        weir__free(m.op);
        weir__fail_nomem("allocating collective '%s' of a program", name);
        return -1;
    }
    for (int r = 0; r < p->nranks; r++)
        m.op[r] = -1;
    m.op[rank] = op;
    m.count = 1;
    p->rendezvous[p->nrendezvous] = m;
    return p->last_rendezvous = p->nrendezvous++;
}

int weir__check_add_op(struct weir__check_program *p, int rank, int stream, const char *name,
                       const char *collective)
{
    struct weir__check_rank *r = &p->ranks[rank];
    struct weir__check_stream *s = &r->streams[stream];
    struct weir__check_op op = {.stream = stream, .position = s->nops, .rendezvous = -1};

    if (!(op.name = weir__strdup(name)) ||
        !weir__grow(&r->ops, r->nops, &r->cap_ops, sizeof *r->ops) ||
        !weir__grow(&s->ops, s->nops, &s->cap_ops, sizeof *s->ops)) {
        weir__free(op.name);
        weir__fail_nomem("allocating operator '%s' of a program", name);
        return -1;
    }
    if (collective && *collective &&
        (op.rendezvous = join_rendezvous(p, rank, r->nops, collective)) < 0) {
        weir__free(op.name);
        return -1;
    }
    s->ops[s->nops++] = r->nops;
    r->ops[r->nops] = op;
    return r->nops++;
}

void weir__check_set_needs(struct weir__check_program *p, int rank, int op, int needs, int from,
                           int to)
{
    struct weir__check_rendezvous *m = &p->rendezvous[p->ranks[rank].ops[op].rendezvous];

    m->needs = needs;
    m->pair[0] = from;
    m->pair[1] = to;
}

weir_status weir__check_add_after(struct weir__check_rank *rank, int op, int before)
{
    struct weir__check_op *o = &rank->ops[op];

    if (!weir__grow(&o->after, o->nafter, &o->cap_after, sizeof *o->after))
        return WEIR_ENOMEM;
    o->after[o->nafter++] = before;
    return WEIR_OK;
}

static bool same_op(const struct weir__check_op *a, const struct weir__check_op *b)
{
    return a->stream == b->stream && a->take == b->take && a->blocks == b->blocks &&
           a->asked == b->asked && a->cube == b->cube && a->vector == b->vector &&
           a->rendezvous == b->rendezvous && a->nafter == b->nafter && !strcmp(a->name, b->name) &&
           (!a->nafter || !memcmp(a->after, b->after, (size_t)a->nafter * sizeof *a->after));
}

bool weir__check_same_rank(const struct weir__check_program *p, int a, int b)
{
    const struct weir__check_rank *x = &p->ranks[a], *y = &p->ranks[b];

    if (x->cube != y->cube || x->vector != y->vector || x->split != y->split ||
        x->nops != y->nops || x->nstreams != y->nstreams)
        return false;
    for (int i = 0; i < x->nstreams; i++)
        if (x->streams[i].priority != y->streams[i].priority ||
            strcmp(x->streams[i].name, y->streams[i].name) != 0)
            return false;
    for (int i = 0; i < x->nops; i++)
        if (!same_op(&x->ops[i], &y->ops[i]))
            return false;
    return true;
}
