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

/* Rendezvous are of all ranks of a program. Pairs of a program of two are, others are not. */
static bool is_explored(const struct weir__member *member, int rank, int nranks)
{
    int peer = peer_of(member);

    return (!member->ranks || member->ranks == nranks) &&
           (peer < 0 || (nranks == 2 && peer == 1 - rank));
}

bool weir__check_rendezvous_name(const struct weir__node *n, int rank, int nranks, char *name,
                                 size_t size)
{
    struct weir__member member;
    int from, to;

    if (!find_member(n, &member) || !is_explored(&member, rank, nranks))
        return false;
    if (peer_of(&member) < 0) {
        snprintf(name, size, "group %s", member.group);
    } else {
        from = member.to >= 0 ? rank : member.from;
        to = member.to >= 0 ? member.to : rank;
        snprintf(name, size, "group %s, %d to %d", member.group, from, to);
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

        if (!x->c.live[v] || !find_member(n, &member) || is_explored(&member, rank, nranks))
            continue;
        if (member.ranks && member.ranks != nranks)
            add_warning(x, n, report,
                        weir__report_text(report,
                                          "%s is of group '%s' of %lld ranks, the program has %d: "
                                          "whom it waits for is not explored",
                                          n->name, member.group, (long long)member.ranks, nranks),
                        "check the graphs or files of all ranks of the group together");
        else
            add_warning(x, n, report,
                        weir__report_text(report,
                                          "%s waits for one other rank of %d: such waits are not "
                                          "explored, only those of all ranks",
                                          n->name, nranks),
                        "check pairs of ranks on their own, or use a collective of the group");
        return; /* once is enough */
    }
}
