/* Several groups of one name in files, which do not say which ranks belong together: all ways to
 * split the ranks into groups are tried, if they are few. */
#include "graph/check/check_graph.h"

enum { MOST = 128 };

/* The number of subsets of k out of n; MOST + 1 stands for more. */
static int choose(int n, int k)
{
    int64_t found = 1;

    for (int i = 1; i <= k && found <= MOST; i++)
        found = found * (n - k + i) / i;
    return (int)weir__min(found, (int64_t)MOST + 1);
}

/* The number of ways to split n ranks into groups of `size`: the first free rank takes `size - 1`
 * of the others, and so on. */
static int count_ways(int n, int size)
{
    int64_t ways = 1;

    for (; n > 0 && ways <= MOST; n -= size)
        ways *= choose(n - 1, size - 1);
    return (int)weir__min(ways, (int64_t)MOST + 1);
}

/* If all ranks run the same graph, every split of the first group is equivalent. */
static int ways_of(const struct weir__check_group *g, bool is_first, bool alike)
{
    return is_first && alike ? 1 : count_ways(g->nhas, (int)g->ranks);
}

int weir__check_count_partings(const struct weir__check_members *m, bool alike)
{
    int64_t ways = 1;
    bool is_first = true;

    for (int i = 0; i < m->n && ways <= MOST; i++)
        if (m->groups[i].parted) {
            ways *= ways_of(&m->groups[i], is_first, alike);
            is_first = false;
        }
    return ways <= MOST ? (int)ways : 0;
}

/* Marks the members of subset number `number` of the ways to take `left` of the free ranks. For
 * each free rank in order: either the subset contains it, or all subsets that contain it are
 * skipped. */
static void take(struct weir__check_group *g, int part, int left, int nfree, int number)
{
    for (int i = 0, index = (int)g->ranks - left; i < g->nhas && left; i++) {
        int with;

        if (g->has[i].part >= 0)
            continue;
        nfree--;
        with = choose(nfree, left - 1);
        if (number >= with) {
            number -= with;
            continue;
        }
        g->has[i].part = part;
        g->has[i].index = index++;
        left--;
    }
}

static void part(struct weir__check_group *g, int number)
{
    int size = (int)g->ranks;

    for (int i = 0; i < g->nhas; i++)
        g->has[i].part = -1;
    for (int made = 0; made * size < g->nhas; made++) {
        int nfree = g->nhas - made * size, ways = choose(nfree - 1, size - 1), first = 0;

        while (g->has[first].part >= 0)
            first++;
        g->has[first].part = made;
        g->has[first].index = 0;
        take(g, made, size - 1, nfree - 1, number % ways);
        number /= ways;
    }
}

void weir__check_set_parting(struct weir__check_members *m, int number, bool alike)
{
    bool is_first = true;

    for (int i = 0; i < m->n; i++) {
        int ways;

        if (!m->groups[i].parted)
            continue;
        ways = ways_of(&m->groups[i], is_first, alike);
        part(&m->groups[i], number % ways);
        number /= ways;
        is_first = false;
    }
}

void weir__check_add_partings(const struct weir__check_members *m, int ways, int bad,
                              struct weir__report *report)
{
    const struct weir__check_group *g = m->groups;

    while (!g->parted)
        g++;
    weir__report_add(
        report,
        &(weir_finding){
            .kind = WEIR_FINDING_COLLECTIVE_ORDER,
            .text = weir__report_text(
                report,
                "%d ranks are in groups of %lld ranks named '%s', and the files do not say which "
                "ranks belong together: in %d of %d ways to split them ranks wait for each other "
                "for ever, or their calls do not match",
                g->nhas, (long long)g->ranks, g->name, bad, ways),
            .remedy.text = "give groups of different ranks different names",
        });
}
