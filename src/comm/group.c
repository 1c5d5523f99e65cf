/* Groups: creation and destruction, their channels, and the list in which ids are looked up. */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

#include "check/race/watch.h"

/* Guards the list of groups. A lookup by id takes its reference under this lock, and a group is
 * removed from the list, if it has no references, under this lock. So a lookup never returns a
 * group that is being destroyed. */
static struct weir__spin known_lock;
static weir_group *known;
static uint64_t serial;

weir_status weir__group_check_options(int nranks, const weir_group_options *o)
{
    if (nranks < 1 || nranks > WEIR_MAX_RANKS)
        return weir__fail(WEIR_ERANGE, "a group of %d ranks is out of range: 1..%d", nranks,
                          WEIR_MAX_RANKS);
    if (o->name && strlen(o->name) >= WEIR__GROUP_NAME)
        return weir__fail(WEIR_EINVAL, "the name of group '%s' has %zu bytes, at most %d fit",
                          o->name, strlen(o->name), WEIR__GROUP_NAME - 1);
    if ((unsigned)o->mode > WEIR_COMM_SDMA)
        return weir__fail(WEIR_EINVAL, "%d is not a mode of a group", (int)o->mode);
    return WEIR_OK;
}

static void remember(weir_group *g, const char *name)
{
    weir__spin_lock(&known_lock);
    serial++;
    if (name)
        snprintf(g->name, sizeof g->name, "%s", name);
    else
        snprintf(g->name, sizeof g->name, "group %llu", (unsigned long long)serial);
    for (int i = 0; i < g->nranks; i++)
        g->ranks[i].id = serial << WEIR__RANK_BITS | (uint64_t)i;
    g->next_known = known;
    known = g;
    weir__spin_unlock(&known_lock);
}

weir_status weir__group_make(int nranks, const weir_group_options *options,
                             const struct weir__transport *transport,
                             struct weir__procs_group *procs, weir_group **out)
{
    weir_group *g;
    size_t size;
    weir_status st;

    *out = NULL;
    if ((st = weir__group_check_options(nranks, options)))
        return st;
    size = sizeof *g + (size_t)nranks * sizeof *g->ranks;
    if (!(g = weir__alloc_aligned(size, WEIR__LINE)))
        return weir__fail_nomem("making a group of %d ranks", nranks);
    memset(g, 0, size);
    g->transport = transport;
    g->procs = procs;
    g->pulls = procs;
    g->nranks = nranks;
    g->mode = options->mode;
    g->timeout_ns = options->timeout_ns;
    for (int i = 0; i < nranks; i++) {
        g->ranks[i].group = g;
        g->ranks[i].index = i;
    }
    if ((st = g->transport->open(g))) {
        weir__free(g);
        return st;
    }
    remember(g, options->name);
    *out = g;
    return WEIR_OK;
}

weir_status weir__group_free(weir_group *g)
{
    weir_group **at = &known;
    uint64_t dropped, uses;

    weir__spin_lock(&known_lock);
    dropped =
        atomic_load(&g->dropped); /* read first, so that calls that begin meanwhile are seen */
    uses = atomic_load(&g->held) - dropped;
    while (*at != g)
        at = &(*at)->next_known;
    if (!uses)
        *at = g->next_known;
    weir__spin_unlock(&known_lock);
    if (uses)
        return weir__fail(
            WEIR_EBUSY,
            "group '%s' cannot be destroyed: %llu queued collective(s) or plan(s) still "
            "use it",
            g->name, (unsigned long long)uses);
    if (g->free_agains)
        g->free_agains(g);
    g->transport->close(g);
    while (g->channels) {
        struct weir__channel *c = g->channels;

        g->channels = c->next;
        if (weir__race_on())
            weir__race_see_end(c);
        weir__free(c);
    }
    weir__free(g);
    return WEIR_OK;
}

weir_rank *weir__rank_hold(uint64_t id)
{
    weir_rank *found = NULL;

    weir__spin_lock(&known_lock);
    for (weir_group *g = known; g && !found; g = g->next_known)
        if (g->ranks[0].id >> WEIR__RANK_BITS == id >> WEIR__RANK_BITS)
            found = &g->ranks[id & ((1 << WEIR__RANK_BITS) - 1)];
    if (found)
        weir__group_hold(found->group);
    weir__spin_unlock(&known_lock);
    return found;
}

void weir__group_hold(weir_group *g)
{
    atomic_fetch_add(&g->held, 1);
}

void weir__group_drop(weir_group *g)
{
    atomic_fetch_add(&g->dropped, 1);
}

/* A group's first channel is made last, so a group with a channel is completely made. */
void weir__groups_each(void (*fn)(const weir_group *group, void *user), void *user)
{
    weir__spin_lock(&known_lock);
    for (weir_group *g = known; g; g = g->next_known) {
        bool whole;

        weir__spin_lock(&g->lock);
        whole = g->channels;
        weir__spin_unlock(&g->lock);
        if (whole)
            fn(g, user);
    }
    weir__spin_unlock(&known_lock);
}

void weir__groups_each_participant(void (*fn)(const struct weir__participant *participant,
                                              const weir_group *group,
                                              const struct weir__ranks *missing, void *user),
                                   void *user)
{
    weir__spin_lock(&known_lock);
    for (weir_group *g = known; g; g = g->next_known) {
        weir__spin_lock(&g->lock);
        for (const struct weir__rendezvous *m = g->rendezvous; m; m = m->next) {
            const struct weir__ranks *here = m->gathered ? &m->left : &m->arrived;
            struct weir__ranks missing =
                weir__ranks_without(m->gathered ? &m->arrived : &m->channel->members, here);

            WEIR__EACH_RANK(rank, here)
            if (m->participants[rank])
                fn(m->participants[rank], g, &missing, user);
        }
        weir__spin_unlock(&g->lock);
    }
    weir__spin_unlock(&known_lock);
}

weir_status weir__group_check(const weir_group *g)
{
    if (!atomic_load_explicit(&g->broken, memory_order_acquire))
        return WEIR_OK;
    return weir__fail(WEIR_ESTATE, "group '%s' is broken and must be created anew: %s", g->name,
                      g->reason);
}

struct weir__channel *weir__group_channel(weir_group *g, const char *name,
                                          const struct weir__ranks *members)
{
    struct weir__channel *made = NULL, *c;
    size_t size = sizeof *made + (size_t)g->nranks * sizeof *made->callers;

    for (;;) {
        weir__spin_lock(&g->lock);
        for (c = g->channels; c && strcmp(c->name, name); c = c->next)
            ;
        if (!c && made) {
            made->next = g->channels;
            g->channels = c = made;
            made = NULL;
        }
        weir__spin_unlock(&g->lock);
        if (c) { /* another thread may have added it meanwhile */
            weir__free(made);
            return c;
        }
        if (!(made = weir__alloc_aligned(size, WEIR__LINE))) {
            weir__fail_nomem("opening a channel of group '%s'", g->name);
            return NULL;
        }
        memset(made, 0, size);
        made->group = g;
        made->members = *members;
        made->nmembers = weir__ranks_count(members);
        snprintf(made->name, sizeof made->name, "%s", name);
    }
}

struct weir__channel *weir__pair_channel(weir_group *g, int from, int to)
{
    struct weir__ranks members = weir__ranks_one(from);
    char name[WEIR__CHANNEL_NAME];

    weir__ranks_add(&members, to);
    snprintf(name, sizeof name, "pair %d to %d", from, to);
    return weir__group_channel(g, name, &members);
}

void weir__channel_count(struct weir__channel *c, int rank, uint64_t calls, const void *on)
{
    struct weir__caller *caller = &c->callers[rank];
    uint64_t made = atomic_load_explicit(&caller->calls, memory_order_relaxed);

    if (!on || caller->on != on) {
        caller->on = on;
        caller->on_since = made;
    }
    atomic_store_explicit(&caller->calls, made + calls, memory_order_release);
}

int weir__channel_blocker(const struct weir__channel *c, int rank, const void *on)
{
    const weir_rank *ranks = c->group->ranks;
    uint64_t call;

    if (!c->group->twins) /* no other rank is on this device */
        return -1;
    call = atomic_load_explicit(&c->callers[rank].calls, memory_order_relaxed);
    WEIR__EACH_RANK(other, &c->members)
    if (other != rank && ranks[other].dev == ranks[rank].dev && c->callers[other].on == on &&
        c->callers[other].on_since <= call && weir__channel_called(c, other, call))
        return other;
    return -1;
}

/* ---- asking ---- */

weir_rank *weir_group_rank(weir_group *g, int index)
{
    return g && index >= 0 && index < g->nranks ? &g->ranks[index] : NULL;
}
int weir_group_size(const weir_group *g)
{
    return g ? g->nranks : 0;
}
const char *weir_group_name(const weir_group *g)
{
    return g ? g->name : "";
}
weir_group *weir_rank_group(const weir_rank *rank)
{
    return rank ? rank->group : NULL;
}
weir_device *weir_rank_device(const weir_rank *rank)
{
    return rank ? rank->dev : NULL;
}
int weir_rank_index(const weir_rank *rank)
{
    return rank ? rank->index : 0;
}

weir_status weir_group_state(weir_group *g)
{
    WEIR__NEED(g, "group");
    if (!atomic_load_explicit(&g->broken, memory_order_acquire))
        return WEIR_OK;
    return weir__fail(g->status, "%s", g->reason);
}

void weir_group_abort(weir_group *g, const char *reason)
{
    char text[sizeof g->reason];

    if (!g)
        return;
    snprintf(text, sizeof text, "group '%s' was aborted%s%s", g->name, reason ? ": " : "",
             reason ? reason : "");
    g->transport->abort(g, WEIR_ESTATE, text);
}
