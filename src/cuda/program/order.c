/* The order in which a program's items become nodes of a graph.
 *
 * CUDA may run a node's first successor in the node's own queue and pass the other successors to
 * other queues, which takes time. So there are two orders to choose from: lane after lane, or
 * always the lane with the longest remaining chain. */
#include "cuda/program/program.h"

static bool is_at(const struct weir__program *p, struct weir__cuda_place place)
{
    return p->lanes[place.lane].at == place.item;
}

static bool is_ready(const struct weir__program *p, const struct weir__cuda_lane *lane)
{
    const struct weir__cuda_item *item = &lane->items[lane->at];

    if (lane->at == lane->nitems)
        return false;
    if (item->merge) {
        const struct weir__cuda_merge *m = &p->arrangement.merges[item->merge - 1];

        for (int i = 0; i < m->n; i++)
            if (!is_at(p, m->members[i]))
                return false;
    }
    return !item->is_wait || p->lanes[item->lane].at > item->item;
}

static void place(struct weir__program *p, struct weir__cuda_place at)
{
    p->order[p->norder++] = at;
    p->lanes[at.lane].at++;
}

bool weir__cuda_line_up(struct weir__program *p)
{
    for (int i = 0; i < p->nlanes; i++)
        p->lanes[i].at = 0;
    p->norder = 0;
    for (;;) {
        const struct weir__cuda_item *item, *best = NULL;
        int next = -1;

        for (int i = 0; i < p->nlanes; i++) {
            if (!is_ready(p, &p->lanes[i]))
                continue;
            item = &p->lanes[i].items[p->lanes[i].at];
            if (!best || (p->arrangement.longest_first && item->height > best->height)) {
                best = item;
                next = i;
            }
        }
        if (!best)
            return p->norder == p->nitems;
        if (best->merge) {
            const struct weir__cuda_merge *m = &p->arrangement.merges[best->merge - 1];

            for (int i = 0; i < m->n; i++)
                place(p, m->members[i]);
        } else {
            place(p, (struct weir__cuda_place){next, p->lanes[next].at});
        }
    }
}

/* Goes backwards, so that the successors of an item are measured first. */
static void measure_heights(struct weir__program *p)
{
    for (int i = p->norder - 1; i >= 0; i--) {
        const struct weir__cuda_lane *lane = &p->lanes[p->order[i].lane];
        struct weir__cuda_item *item = weir__cuda_item_at(p, p->order[i]), *from;

        if (p->order[i].item + 1 < lane->nitems && item[1].height > item->height)
            item->height = item[1].height;
        item->height += !item->is_wait;
        if (!item->is_wait)
            continue;
        from = &p->lanes[item->lane].items[item->item];
        if (item->height > from->height)
            from->height = item->height;
    }
}

/* Goes forwards. An item is on a longest chain if it begins one, or if it continues the chain of a
 * predecessor that is on one. */
static void mark_critical(struct weir__program *p)
{
    int longest = 0;

    for (int i = 0; i < p->nlanes; i++)
        if (p->lanes[i].nitems && p->lanes[i].items[0].height > longest)
            longest = p->lanes[i].items[0].height;
    for (int i = 0; i < p->norder; i++) {
        struct weir__cuda_item *item = weir__cuda_item_at(p, p->order[i]);
        const struct weir__cuda_item *before = p->order[i].item ? item - 1 : NULL;

        item->critical |=
            item->height == longest ||
            (before && before->critical && before->height == item->height + !before->is_wait);
        if (item->is_wait) {
            before = &p->lanes[item->lane].items[item->item];
            item->critical |= before->critical && before->height == item->height + 1;
        }
    }
}

weir_status weir__cuda_order(struct weir__program *p)
{
    size_t n = 1;

    for (int i = 0; i < p->nlanes; i++)
        n += (size_t)p->lanes[i].nitems;
    p->nitems = (int)n - 1;
    if (!(p->order = weir__calloc(n, sizeof *p->order)))
        return weir__fail_nomem("allocating the order of a plan of %zu commands", n - 1);
    (void)weir__cuda_line_up(p);
    measure_heights(p);
    mark_critical(p);
    return WEIR_OK;
}
