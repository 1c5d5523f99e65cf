/* Operators of groups, as the checker sees them: which of them meet, and whether ranks that meet
 * say the same. */
#include <stdio.h>
#include <string.h>

#include "graph/check/check_graph.h"

static bool find_member(const struct weir__node *n, struct weir__member *member)
{
    if (!n->op->member || !(n->op->flags & WEIR__OP_COLLECTIVE))
        return false;
    n->op->member(n->params, member);
    return member->meets;
}

static int peer_of(const struct weir__member *member)
{
    return member->to >= 0 ? member->to : member->from;
}

static int find_group(const struct weir__check_members *m, const char *group, bool kernel)
{
    int i = 0;

    while (i < m->n && (m->groups[i].kernel != kernel || strcmp(m->groups[i].group, group) != 0))
        i++;
    return i;
}

static const struct weir__kernel_params *kernel_of_some(const struct weir__node *n)
{
    const struct weir__kernel_params *k = strcmp(n->op->name, "Kernel") ? NULL : n->params;

    return k && k->collective[0] && k->ranks > 0 ? k : NULL;
}

int weir__check_kernel_needs(const struct weir__checked *x, const struct weir__kernel_params *k,
                             int nranks)
{
    int i = find_group(x->members, k->collective, true);

    return k->ranks > 0 && k->ranks < nranks && i < x->members->n &&
                   x->members->groups[i].ranks == k->ranks
               ? (int)k->ranks
               : nranks;
}

weir_status weir__check_count_groups(const weir_graph *g, int rank, struct weir__check_members *m)
{
    for (int v = 0; v < g->nnodes; v++) {
        const struct weir__kernel_params *k = kernel_of_some(&g->nodes[v]);
        struct weir__member member;
        const char *group;
        int i;

        if (!k && !find_member(&g->nodes[v], &member))
            continue;
        group = k ? k->collective : member.group;
        if ((i = find_group(m, group, k)) == m->n) {
            if (!weir__grow(&m->groups, m->n, &m->cap, sizeof *m->groups))
                return WEIR_ENOMEM;
            m->groups[m->n].group = group;
            m->groups[m->n].kernel = k;
            m->groups[m->n].ranks = 0;
            m->groups[m->n++].last = -1;
        }
        if (m->groups[i].last != rank) {
            m->groups[i].last = rank;
            m->groups[i].ranks++;
        }
    }
    return WEIR_OK;
}

/* A group of all ranks, or of as many as have operators of it. Who is which of the latter's ranks
 * is not known, so its pairs are not. */
static bool is_explored(const struct weir__checked *x, const struct weir__member *member, int rank,
                        int nranks)
{
    int peer = peer_of(member), group;

    if (!member->ranks || member->ranks == nranks)
        return peer < nranks && peer != rank;
    group = find_group(x->members, member->group, false);
    return peer < 0 && member->ranks < nranks && group < x->members->n &&
           x->members->groups[group].ranks == member->ranks;
}

bool weir__check_find_rendezvous(const struct weir__checked *x, const struct weir__node *n,
                                 int rank, int nranks, struct weir__check_membership *out)
{
    struct weir__member member;

    if (!find_member(n, &member) || !is_explored(x, &member, rank, nranks))
        return false;
    *out = (struct weir__check_membership){
        .needs = member.ranks ? (int)member.ranks : nranks, .from = -1, .to = -1};
    if (peer_of(&member) < 0) {
        snprintf(out->name, sizeof out->name, "group %s", member.group);
    } else {
        out->needs = 2;
        out->from = member.to >= 0 ? rank : member.from;
        out->to = member.to >= 0 ? member.to : rank;
        snprintf(out->name, sizeof out->name, "group %s, %d to %d", member.group, out->from,
                 out->to);
    }
    return true;
}

/* ---- ranks that do not fit together ---- */

static void add_misfit(const struct weir__check_program *p, const struct weir__check_rendezvous *m,
                       int a, int b, const char *text, struct weir__report *report)
{
    weir_finding f = {.kind = WEIR_FINDING_COLLECTIVE_ORDER, .is_error = true};
    struct weir__lines nodes = {0};

    f.text = weir__report_text(report, "number %d of collective '%s': %s", m->k + 1, m->name, text);
    weir__report_line(report, &nodes,
                      weir__report_text(report, "%s", p->ranks[a].ops[m->op[a]].name));
    weir__report_line_once(report, &nodes,
                           weir__report_text(report, "%s", p->ranks[b].ops[m->op[b]].name));
    f.nodes = weir__report_lines(report, &nodes, &f.nnodes);
    f.remedy.text = "issue the collectives of a group in the same order, and alike, on every rank";
    weir__report_add(report, &f);
}

static const struct weir__meet *meet_of(const struct weir__check_program *p,
                                        const struct weir__check_rendezvous *m, int rank)
{
    return m->op[rank] < 0 ? NULL : p->ranks[rank].ops[m->op[rank]].meet;
}

void weir__check_misfits(const struct weir__check_program *p, struct weir__report *report)
{
    for (int i = 0; i < p->nrendezvous; i++) {
        const struct weir__check_rendezvous *m = &p->rendezvous[i];
        int first = -1;
        char text[300];

        for (int r = 0; r < p->nranks; r++) {
            if (!meet_of(p, m, r))
                continue;
            if (first < 0)
                first = r;
            if (weir__offers_fit(meet_of(p, m, first), meet_of(p, m, r), text, sizeof text))
                continue;
            add_misfit(p, m, first, r, text, report);
            return; /* what follows is out of step with it */
        }
    }
}

/* ---- groups that the program is not the whole of ---- */

static void add_warning(const struct weir__checked *x, const struct weir__node *n,
                        struct weir__report *report, const char *text, const char *remedy)
{
    weir_finding f = {.kind = WEIR_FINDING_COLLECTIVE_ORDER,
                      .text = weir__report_text(report, "%s%s", x->where, text),
                      .remedy.text = remedy};
    struct weir__lines nodes = {0};

    weir__report_line(report, &nodes, weir__report_text(report, "%s", n->name));
    f.nodes = weir__report_lines(report, &nodes, &f.nnodes);
    weir__report_add(report, &f);
}

void weir__check_groups(const struct weir__checked *x, int rank, int nranks,
                        struct weir__report *report)
{
    for (int v = 0; v < x->g->nnodes; v++) {
        const struct weir__node *n = &x->g->nodes[v];
        struct weir__member member;

        if (!x->c.live[v] || !find_member(n, &member) || is_explored(x, &member, rank, nranks))
            continue;
        if (member.ranks && member.ranks != nranks && peer_of(&member) < 0)
            add_warning(x, n, report,
                        weir__report_text(
                            report,
                            "%s is of group '%s' of %lld ranks, of which the program "
                            "of %d has %d: whom it waits for is not explored",
                            n->name, member.group, (long long)member.ranks, nranks,
                            x->members->groups[find_group(x->members, member.group, false)].ranks),
                        "check the graphs or files of all ranks of the group together, and give "
                        "groups of different ranks different names");
        else
            add_warning(x, n, report,
                        weir__report_text(report,
                                          "%s waits for rank %d of group '%s' of %lld ranks, in a "
                                          "program of %d: who that is is not known, and not "
                                          "explored",
                                          n->name, peer_of(&member), member.group,
                                          (long long)member.ranks, nranks),
                        "check the ranks of the group on their own");
        return; /* once is enough */
    }
}
