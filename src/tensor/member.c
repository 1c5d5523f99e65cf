#include "tensor/member.h"

#include <stdio.h>
#include <string.h>

static weir_rank *find_named(const char *name, int64_t size, weir_rank *const *ranks, size_t nranks)
{
    for (size_t i = 0; i < nranks; i++)
        if (!strcmp(ranks[i]->group->name, name) && (!size || ranks[i]->group->nranks == size))
            return ranks[i];
    return NULL;
}

static weir_rank *find_rank(const struct weir__member *member, weir_rank *const *ranks,
                            size_t nranks)
{
    weir_rank *found = NULL;

    if (*member->group)
        found = find_named(member->group, 0, ranks, nranks);
    else if (member->of_some > 0)
        found = find_named(member->name, member->of_some, ranks, nranks);
    if (!found && !*member->group && nranks)
        found = ranks[0];
    if (found)
        weir__group_hold(found->group);
    return found;
}

weir_status weir__member_rank(const struct weir__member *member, const char *what,
                              weir_rank *const *ranks, size_t nranks, weir_rank **out)
{
    weir_rank *rank =
        member->rank ? weir__rank_hold(member->rank) : find_rank(member, ranks, nranks);
    weir_status st;

    *out = NULL;
    if (!rank && member->rank)
        return weir__fail(WEIR_ESTATE, "%s: group '%s' has been destroyed", what, member->group);
    if (!rank)
        return weir__fail(WEIR_EINVAL,
                          "%s: no rank of group '%s' is given: compile with a rank of it", what,
                          member->group);
    if (!rank->dev)
        st = weir__fail(WEIR_EINVAL,
                        "%s: rank %d of group '%s' is another process: call with weir_group_self",
                        what, rank->index, rank->group->name);
    else if (member->ranks && member->ranks != rank->group->nranks)
        st = weir__fail(WEIR_EINVAL, "%s is for a group of %lld ranks, group '%s' has %d", what,
                        (long long)member->ranks, rank->group->name, rank->group->nranks);
    else
        st = weir__group_check(rank->group);
    if (st)
        weir__group_drop(rank->group);
    else
        *out = rank;
    return st;
}

weir_status weir__member_channel(const struct weir__member *member, const char *what,
                                 const weir_rank *rank, struct weir__channel **out)
{
    weir_group *g = rank->group;
    int peer = member->to >= 0 ? member->to : member->from;
    struct weir__ranks members;
    char name[WEIR__CHANNEL_NAME];

    if (peer < 0 && !*member->name) {
        *out = g->whole;
        return WEIR_OK;
    }
    if (peer < 0) { /* prefix that keeps names of users from matching those of pairs */
        snprintf(name, sizeof name, "name %s", member->name);
        members = weir__ranks_all(g->nranks);
        *out = weir__group_channel(g, name, &members);
    } else if (peer >= g->nranks || peer == rank->index) {
        return weir__fail(WEIR_ERANGE, "%s: rank %d of group '%s' has no peer %d", what,
                          rank->index, g->name, peer);
    } else {
        *out = weir__pair_channel(g, member->to >= 0 ? rank->index : peer,
                                  member->to >= 0 ? peer : rank->index);
    }
    return *out ? WEIR_OK : WEIR_ENOMEM;
}
