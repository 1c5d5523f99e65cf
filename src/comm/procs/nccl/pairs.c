/* Communicators of pairs: one for each direction, made at its first message. */
#include <string.h>

#include "comm/procs/nccl/comm.h"

static struct weir__nccl_line *find(struct weir__nccl_line *line,
                                    const struct weir__channel *channel)
{
    while (line && line->channel != channel)
        line = line->next;
    return line;
}

uint64_t weir__nccl_issued(const struct weir__nccl *n, const struct weir__channel *channel)
{
    const struct weir__nccl_line *line = &n->whole;

    if (*channel->name)
        line = find(n->whole.next, channel);
    return line ? line->issued : 0;
}

/* Both ranks use the unique id in the sender's record. */
static weir_status make(struct weir__procs_group *p, const struct weir__rendezvous *m, int sender,
                        void **comm)
{
    const struct weir__visit *v = m->more;
    int peer = weir__ranks_next(&m->channel->members, 0);
    struct weir__nccl_id id;

    memcpy(&id, v->cell->records[weir__cell_place(m->channel, sender)].unique, sizeof id);
    if (peer == p->self)
        peer = weir__ranks_next(&m->channel->members, peer + 1);
    return weir__nccl_comm_make(p, p->nccl->api, &id, 2, p->self == sender ? 0 : 1, peer,
                                weir__nccl_deadline(p->group->timeout_ns), comm);
}

weir_status weir__nccl_reach(struct weir__procs_group *p, const struct weir__rendezvous *m,
                             const struct weir__verb *verb, struct weir__nccl_line **out)
{
    struct weir__nccl_line *line = &p->nccl->whole;
    weir_status st;

    *out = line;
    if (!*m->channel->name)
        return WEIR_OK;
    weir__mutex_lock(&p->world->lock);
    *out = find(p->nccl->whole.next, m->channel);
    weir__mutex_unlock(&p->world->lock);
    if (*out)
        return WEIR_OK;
    if (!(line = weir__calloc(1, sizeof *line)))
        return weir__fail_nomem("allocating a communicator of two ranks");
    line->channel = m->channel;
    if ((st = make(p, m, verb->kind == WEIR__VERB_SEND ? p->self : verb->root, &line->comm))) {
        weir__free(line);
        return st;
    }
    weir__mutex_lock(&p->world->lock);
    line->next = p->nccl->whole.next;
    p->nccl->whole.next = line;
    weir__mutex_unlock(&p->world->lock);
    *out = line;
    return WEIR_OK;
}
