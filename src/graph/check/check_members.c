/* Which ranks of a program have operators of which groups, and each rank's number in its group. */
#include <string.h>

#include "comm/comm.h"
#include "graph/check/check_graph.h"

bool weir__check_find_member(const struct weir__node *n, struct weir__member *member)
{
    if (!n->op->member || !(n->op->flags & WEIR__OP_COLLECTIVE))
        return false;
    n->op->member(n->params, member);
    return member->is_collective;
}

static uint64_t number_of(const struct weir__member *member)
{
    return member->rank >> WEIR__RANK_BITS;
}

static int find_group(const struct weir__check_members *m, const char *name, bool kernel,
                      uint64_t id)
{
    int i = 0;

    while (i < m->n && (m->groups[i].kernel != kernel || m->groups[i].id != id ||
                        strcmp(m->groups[i].name, name) != 0))
        i++;
    return i;
}

static const struct weir__check_group *look_up(const struct weir__check_members *m,
                                               const char *name, bool kernel, uint64_t id)
{
    int i = find_group(m, name, kernel, id);

    if (i < m->n && m->groups[i].into >= 0)
        i = m->groups[i].into;
    return i < m->n ? &m->groups[i] : NULL;
}

const struct weir__check_group *weir__check_group_of(const struct weir__check_members *m,
                                                     const struct weir__member *member)
{
    return look_up(m, member->group, false, number_of(member));
}

const struct weir__check_group *weir__check_kernel_group(const struct weir__check_members *m,
                                                         const struct weir__kernel_params *k)
{
    return k->ranks > 0 ? look_up(m, k->collective, true, 0) : NULL;
}

const struct weir__check_has *weir__check_find_has(const struct weir__check_group *g, int rank)
{
    int low = 0, high = g->nhas;

    while (low < high) {
        int mid = low + (high - low) / 2;

        if (g->has[mid].rank == rank)
            return &g->has[mid];
        *(g->has[mid].rank < rank ? &low : &high) = g->has[mid].rank < rank ? mid + 1 : mid;
    }
    return NULL;
}

/* Called in ascending order of ranks. */
static weir_status add_rank(struct weir__check_group *g, int rank, int index)
{
    if (g->nhas && g->has[g->nhas - 1].rank == rank)
        return WEIR_OK;
    if (!weir__grow(&g->has, g->nhas, &g->cap, sizeof *g->has))
        return WEIR_ENOMEM;
    g->has[g->nhas++] = (struct weir__check_has){.rank = rank, .index = index};
    return WEIR_OK;
}

static const struct weir__kernel_params *kernel_of_some(const struct weir__node *n)
{
    const struct weir__kernel_params *k = strcmp(n->op->name, "Kernel") ? NULL : n->params;

    return k && k->collective[0] && k->ranks > 0 ? k : NULL;
}

weir_status weir__check_count_groups(const weir_graph *graph, int rank,
                                     struct weir__check_members *m)
{
    weir_status st = WEIR_OK;

    for (int v = 0; v < graph->nnodes && !st; v++) {
        const struct weir__kernel_params *k = kernel_of_some(&graph->nodes[v]);
        struct weir__member member = {0};
        const char *name;
        int i;

        if (!k && !weir__check_find_member(&graph->nodes[v], &member))
            continue;
        name = k ? k->collective : member.group;
        if ((i = find_group(m, name, k, number_of(&member))) == m->n) {
            if (!weir__grow(&m->groups, m->n, &m->cap, sizeof *m->groups))
                return WEIR_ENOMEM;
            m->groups[m->n++] = (struct weir__check_group){
                .name = name,
                .kernel = k,
                .id = number_of(&member),
                .ranks = k ? k->ranks : member.ranks,
                .into = -1,
            };
        }
        st = add_rank(&m->groups[i], rank,
                      (int)(member.rank & ((UINT64_C(1) << WEIR__RANK_BITS) - 1)));
    }
    return st;
}

/* ---- numbers of ranks ---- */

/* Whether the ranks' numbers in the group are known and all different. They are not if several
 * ranks run one graph.
 */
static bool has_indexes(const struct weir__check_group *g)
{
    for (int i = 0; i < g->nhas && g->id; i++)
        for (int k = 0; k < i; k++)
            if (g->has[i].index == g->has[k].index)
                return false;
    return g->id;
}

/* Adds the ranks of `from` to `to`, in the order of the program. The caller has allocated room for
 * all ranks. */
static void merge(struct weir__check_group *to, struct weir__check_group *from)
{
    for (int i = 0; i < from->nhas; i++) {
        int at = to->nhas;

        if (weir__check_find_has(to, from->has[i].rank) || at == to->cap)
            continue;
        for (; at && to->has[at - 1].rank > from->has[i].rank; at--)
            to->has[at] = to->has[at - 1];
        to->has[at] = from->has[i];
        to->nhas++;
    }
}

static void settle(struct weir__check_group *g, int nranks)
{
    bool of_some = g->ranks > 0 && g->ranks != nranks, knows = has_indexes(g);

    g->parted = !g->kernel && !g->id && of_some && g->nhas > g->ranks && g->nhas % g->ranks == 0;
    for (int i = 0; i < g->nhas; i++) {
        g->has[i].index = knows ? g->has[i].index : i;
        g->has[i].part = of_some && g->nhas != g->ranks ? -1 : 0;
    }
}

weir_status weir__check_settle_groups(struct weir__check_members *m, int nranks)
{
    for (int i = 0; i < m->n; i++) {
        int of_files = find_group(m, m->groups[i].name, false, 0);
        struct weir__check_group *to = &m->groups[of_files];

        if (m->groups[i].kernel || !m->groups[i].id || of_files == m->n)
            continue;
        while (to->cap < nranks)
            if (!weir__grow(&to->has, to->cap, &to->cap, sizeof *to->has))
                return WEIR_ENOMEM;
        merge(to, &m->groups[i]);
        m->groups[i].into = of_files;
    }
    for (int i = 0; i < m->n; i++) {
        settle(&m->groups[i], nranks);
        m->groups[i].several = m->groups[i].parted;
        for (int k = 0; k < m->n; k++)
            m->groups[i].several |= k != i && !m->groups[i].kernel && !m->groups[k].kernel &&
                                    m->groups[i].into < 0 && m->groups[k].into < 0 &&
                                    !strcmp(m->groups[i].name, m->groups[k].name);
    }
    return WEIR_OK;
}

void weir__check_members_fini(struct weir__check_members *m)
{
    for (int i = 0; i < m->n; i++)
        weir__free(m->groups[i].has);
    weir__free(m->groups);
}
