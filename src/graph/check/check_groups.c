/* Collectives as the checker sees them: which of them meet, and whether the calls that meet
 * match. */
#include <stdio.h>
#include <string.h>

#include "graph/check/check_graph.h"

static int peer_of(const struct weir__member *member)
{
    return member->to >= 0 ? member->to : member->from;
}

int weir__check_kernel_needs(const struct weir__checked *x, const struct weir__kernel_params *k,
                             int nranks)
{
    const struct weir__check_group *g = weir__check_kernel_group(x->members, k);

    return g && k->ranks < nranks && g->nhas == k->ranks ? (int)k->ranks : nranks;
}

/* The program's rank that has number `index` in the group that `own` is in; -1 if there is none. */
static int rank_at(const struct weir__check_group *g, const struct weir__check_has *own, int index)
{
    for (int i = 0; i < g->nhas; i++)
        if (g->has[i].part == own->part && g->has[i].index == index)
            return g->has[i].rank;
    return -1;
}

static bool is_whole(const struct weir__member *member, int nranks)
{
    return !member->ranks || member->ranks == nranks;
}

/* Whether the operator's peers are known: its group has all ranks of the program, or exactly as
 * many as have operators of it. */
static bool is_explored(const struct weir__checked *x, const struct weir__member *member, int rank,
                        int nranks)
{
    const struct weir__check_group *g = weir__check_group_of(x->members, member);
    const struct weir__check_has *own = g ? weir__check_find_has(g, rank) : NULL;
    int peer = peer_of(member), at;

    if (is_whole(member, nranks) && peer < 0)
        return true;
    if (!own || (!is_whole(member, nranks) && own->part < 0))
        return false;
    if (peer < 0)
        return true;
    at = is_whole(member, nranks) && own->index == rank ? peer : rank_at(g, own, peer);
    return at >= 0 && at < nranks && at != rank;
}

bool weir__check_find_rendezvous(const struct weir__checked *x, const struct weir__node *n,
                                 int rank, int nranks, struct weir__check_membership *out)
{
    const struct weir__check_group *g;
    const struct weir__check_has *own;
    struct weir__member member;
    char which[32] = "";

    if (!weir__check_find_member(n, &member) || !is_explored(x, &member, rank, nranks))
        return false;
    g = weir__check_group_of(x->members, &member);
    own = weir__check_find_has(g, rank);
    if (g->several)
        snprintf(which, sizeof which, " #%d", (int)(g - x->members->groups) * nranks + own->part);
    *out = (struct weir__check_membership){
        .needs = member.ranks ? (int)member.ranks : nranks, .from = -1, .to = -1};
    if (peer_of(&member) < 0) {
        snprintf(out->name, sizeof out->name, "group %s%s", member.group, which);
    } else {
        int peer = is_whole(&member, nranks) && own->index == rank
                       ? peer_of(&member)
                       : rank_at(g, own, peer_of(&member));

        out->needs = 2;
        out->from = member.to >= 0 ? rank : peer;
        out->to = member.to >= 0 ? peer : rank;
        snprintf(out->name, sizeof out->name, "group %s%s, %d to %d", member.group, which,
                 out->from, out->to);
    }
    return true;
}

/* ---- calls that do not match ---- */

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
    f.remedy.text = "issue the collectives of a group in the same order and with the same "
                    "arguments on every rank";
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
            return; /* later calls are only out of step because of this one */
        }
    }
}

/* ---- groups with ranks outside the program ---- */

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

        if (!x->c.live[v] || !weir__check_find_member(n, &member) ||
            is_explored(x, &member, rank, nranks))
            continue;
        if (member.ranks && member.ranks != nranks && peer_of(&member) < 0)
            add_warning(
                x, n, report,
                weir__report_text(report,
                                  "%s is in group '%s' of %lld ranks, but the program of %d "
                                  "has %d of them: waits for other ranks are not explored",
                                  n->name, member.group, (long long)member.ranks, nranks,
                                  weir__check_group_of(x->members, &member)->nhas),
                "check the graphs or files of all ranks of the group together, and give "
                "groups of different ranks different names");
        else
            add_warning(x, n, report,
                        weir__report_text(report,
                                          "%s waits for rank %d of group '%s' of %lld ranks: the "
                                          "checker cannot tell which of the program's %d ranks "
                                          "that is, and does not explore the wait",
                                          n->name, peer_of(&member), member.group,
                                          (long long)member.ranks, nranks),
                        "check the ranks of the group on their own");
        return; /* one warning is enough */
    }
}
