/* The order in which a program's items become nodes of a graph.
 *
 * CUDA may let a node's first successor go on in the node's own queue and hand the others to other
 * queues, which takes time. So there are two orders to choose from: lane after lane, or whichever
 * lane has the longest way to go. */
#include "cuda/program.h"

static bool is_ready(const struct weir__program *p, const struct weir__cuda_lane *lane)
{
    const struct weir__cuda_item *item = &lane->items[lane->at];

    return lane->at < lane->nitems && (!item->is_wait || p->lanes[item->lane].at > item->item);
}

void weir__cuda_line_up(struct weir__program *p, bool by_height)
{
    for (int i = 0; i < p->nlanes; i++)
        p->lanes[i].at = 0;
    p->norder = 0;
    for (;;) {
        int next = -1;

        for (int i = 0; i < p->nlanes; i++)
            if (is_ready(p, &p->lanes[i]) &&
                (next < 0 || (by_height && p->lanes[i].items[p->lanes[i].at].height >
                                               p->lanes[next].items[p->lanes[next].at].height)))
                next = i;
        if (next < 0)
            return;
        p->order[p->norder++] = (struct weir__cuda_place){next, p->lanes[next].at++};
    }
}

/* From the last back: what follows an item has its height by then. */
static void measure_heights(struct weir__program *p)
{
    for (int i = p->norder - 1; i >= 0; i--) {
        const struct weir__cuda_lane *lane = &p->lanes[p->order[i].lane];
        struct weir__cuda_item *item = &lane->items[p->order[i].item], *from;

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

weir_status weir__cuda_order(struct weir__program *p)
{
    size_t n = 1;

    for (int i = 0; i < p->nlanes; i++)
        n += (size_t)p->lanes[i].nitems;
    if (!(p->order = weir__calloc(n, sizeof *p->order)))
        return weir__fail(WEIR_ENOMEM, "the order of a plan of %zu commands", n - 1);
    weir__cuda_line_up(p, false);
    measure_heights(p);
    return WEIR_OK;
}
