/* Groups whose ranks are processes. */
#include "base/sized.h"
#include "comm/procs/engine.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_NS INT64_C(60000000000)

static weir_status check_device(const weir_device *dev)
{
    if (dev->driver->collectives && dev->driver->collectives->between_processes)
        return WEIR_OK;
    if (!(dev->props.features & WEIR_FEATURE_REAL_TIME))
        return weir__fail(WEIR_EUNSUPPORTED,
                          "%s has its own clock, which processes cannot share: make its ranks "
                          "devices of one process (weir_group_create)",
                          dev->props.name);
    return weir__fail(WEIR_EUNSUPPORTED, "ranks on %s cannot be processes: use cpu or cuda",
                      dev->props.name);
}

/* Looks up the engine by name or WEIR_ENGINE. *out is NULL if neither is given: weir chooses. */
static weir_status find_engine(const char *name, const struct weir__engine **out)
{
    const char *why;

    *out = NULL;
    if (!name)
        name = getenv("WEIR_ENGINE");
    if (!name || !*name)
        return WEIR_OK;
    if (!(*out = weir__engine_find(name)))
        return weir__fail(WEIR_EUNSUPPORTED,
                          "there is no engine '%s' between processes: shm, mpi or nccl", name);
    why = (*out)->unavailable ? (*out)->unavailable() : NULL;
    return why ? weir__fail(WEIR_EUNAVAILABLE, "%s", why) : WEIR_OK;
}

/* Makes the group on the device after its members have met. Takes ownership of `procs`. */
static weir_status make_group(weir_device *dev, const weir_group_options *options, int nranks,
                              struct weir__procs_group *procs, weir_group **out)
{
    weir_group_options o = *options;
    struct weir__ranks all = weir__ranks_all(nranks);
    int self = weir__procs_group_self(procs);
    weir_group *g;
    weir_status st;

    if (!o.timeout_ns) /* shorter than the device's: the group's error names the missing rank */
        o.timeout_ns = dev->op_timeout_ns < 0 ? -1 : dev->op_timeout_ns / 4 * 3 + 1;
    if ((st = weir__group_make(nranks, &o, &weir__procs_transport, procs, &g))) {
        weir__procs_group_free(procs);
        return st;
    }
    for (int i = 0; i < nranks; i++) {
        g->ranks[i].dev = i == self ? dev : NULL;
        if (i == self)
            snprintf(g->ranks[i].device, sizeof g->ranks[i].device, "%s", dev->label);
        else
            snprintf(
                g->ranks[i].device, sizeof g->ranks[i].device, "process %u",
                weir__procs_group_world(procs)->peers[weir__procs_group_world_rank(procs, i)].pid);
    }
    if (!(g->whole = weir__group_channel(g, "", &all))) {
        weir__group_free(g);
        return WEIR_ENOMEM;
    }
    atomic_fetch_add(&dev->groups_live, 1);
    atomic_store(&dev->shares, true);
    *out = g;
    return WEIR_OK;
}

weir_status weir_group_join(weir_device *dev, const weir_join_options *options, weir_group **out)
{
    weir_join_options o;
    weir_status st = WEIR__TAKE(&o, options, "options of joining a group");
    struct weir__place_in_job place;
    struct weir__procs_group *procs;
    const struct weir__engine *engine;
    struct weir__world *world;
    int all[WEIR_MAX_RANKS];
    int64_t patience;
    weir_cores limit;

    WEIR__NEED(dev, "device");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (st || (st = check_device(dev)) || (st = find_engine(o.engine, &engine)) ||
        (st =
             weir__group_check_options(1, &(weir_group_options){.name = o.name, .mode = o.mode})) ||
        (st = weir__procs_find_place(&o, &place)) ||
        (st = weir__procs_check_most(engine, dev->driver->collectives->sharing, place.ranks)))
        return st;
    patience = o.join_timeout_ns > 0 ? o.join_timeout_ns : JOIN_NS;
    if ((st = weir__world_join(&place, engine, dev->driver->collectives->sharing, dev, patience,
                               &world)))
        return st;
    limit = weir_device_get_limit(dev);
    world->cores = limit.vector < dev->props.cores.vector ? limit.vector : 0;
    for (int i = 0; i < place.ranks; i++)
        all[i] = i;
    st = weir__procs_group_make(world, all, place.ranks, o.name ? o.name : "world", patience,
                                &procs);
    if (!st)
        st = make_group(dev,
                        &(weir_group_options){.name = o.name ? o.name : "world",
                                              .timeout_ns = o.timeout_ns,
                                              .mode = o.mode},
                        place.ranks, procs, out);
    weir__world_drop(world);
    return st;
}

weir_status weir_group_split(weir_group *group, const int *ranks, int nranks,
                             const weir_group_options *options, weir_group **out)
{
    weir_group_options o;
    weir_status st = WEIR__TAKE(&o, options, "options of a group");
    struct weir__procs_group *procs;
    struct weir__world *world;
    int of_world[WEIR_MAX_RANKS];
    weir_device *dev;
    char name[WEIR__GROUP_NAME];

    WEIR__NEED(group, "group");
    WEIR__NEED(ranks, "ranks");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (st || (st = weir__group_check_options(nranks, &o)))
        return st;
    if (!group->procs)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "group '%s' is of one process: make a group of its devices with "
                          "weir_group_create",
                          group->name);
    world = weir__procs_group_world(group->procs);
    dev = group->ranks[weir__procs_group_self(group->procs)].dev;
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= group->nranks)
            return weir__fail(WEIR_ERANGE, "rank %d is out of range: group '%s' has 0..%d",
                              ranks[i], group->name, group->nranks - 1);
        of_world[i] = weir__procs_group_world_rank(group->procs, ranks[i]);
    }
    snprintf(name, sizeof name, "%s", o.name ? o.name : "split");
    if (!o.timeout_ns)
        o.timeout_ns = group->timeout_ns;
    if ((st = weir__procs_group_make(world, of_world, nranks, name, JOIN_NS, &procs)))
        return st;
    return make_group(dev, &o, nranks, procs, out);
}

weir_rank *weir_group_self(weir_group *g)
{
    return g && g->procs ? &g->ranks[weir__procs_group_self(g->procs)] : NULL;
}

const char *weir_group_engine(const weir_group *g)
{
    if (!g)
        return "";
    return g->procs ? weir__procs_group_world(g->procs)->engine->name : g->transport->name;
}

size_t weir_engine_list(weir_engine_info *out, size_t size, size_t max)
{
    size_t n = 0;

    for (const struct weir__engine *e; (e = weir__engine_at((int)n)); n++) {
        weir_engine_info row = {e->name, e->promise, e->unavailable ? e->unavailable() : NULL};

        if (out && n < max)
            weir__sized_give((char *)out + n * size, size, &row, sizeof row);
    }
    return n;
}

int64_t weir_group_clock_offset_ns(weir_group *g)
{
    return g && g->procs ? atomic_load(&weir__procs_group_world(g->procs)->offset_ns) : 0;
}

weir_status weir_recv_ready(weir_rank *self, int source, bool *ready)
{
    struct weir__channel *channel;
    weir_group *g;
    weir_status st;

    WEIR__NEED(self, "self");
    WEIR__NEED(ready, "ready");
    *ready = false;
    g = self->group;
    if (source < 0 || source >= g->nranks || source == self->index)
        return weir__fail(WEIR_ERANGE, "rank %d of group '%s' has no peer %d", self->index, g->name,
                          source);
    if (!g->procs)
        return weir__fail(WEIR_EUNSUPPORTED,
                          "the ranks of group '%s' are in one process, where weir cannot tell who "
                          "has sent: receive from a given rank",
                          g->name);
    if ((st = weir__group_check(g)))
        return st;
    if (!(channel = weir__pair_channel(g, source, self->index)))
        return WEIR_ENOMEM;
    return weir__procs_has_arrived(
        g->procs, channel, atomic_load(&channel->callers[self->index].calls), source, ready);
}
