#include "comm/procs/nccl/comm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { IN_PROGRESS = 7, NAP_NS = 20000, LONG_NAP_NS = 1000000, NAPS = 100 };
#define END_NS INT64_C(2000000000) /* the longest wait for ncclCommFinalize */

uint64_t weir__nccl_deadline(int64_t timeout_ns)
{
    return timeout_ns < 0 ? UINT64_MAX : weir__clock_ns() + (uint64_t)timeout_ns;
}

weir_status weir__nccl_fail(const struct weir__nccl_api *api, void *comm, const char *what,
                            int code)
{
    const char *more = api->last_error ? api->last_error(comm) : NULL;

    return weir__fail(WEIR_EUNAVAILABLE, "NCCL: %s: %s%s%s", what,
                      api->error_string ? api->error_string(code) : "an error",
                      more && *more ? ": " : "", more ? more : "");
}

/* Returns why waiting for the members is pointless; WEIR_OK if it is not. */
static weir_status find_reason(struct weir__procs_group *p, int awaited, char *text, size_t size)
{
    weir_status st = WEIR_OK;

    weir__mutex_lock(&p->world->lock);
    if (p->early) {
        st = p->early;
        snprintf(text, size, "%s", p->early_text);
    } else if (p->group && atomic_load(&p->group->broken)) {
        st = p->group->status;
        snprintf(text, size, "%s", p->group->reason);
    }
    for (int i = 0; i < p->ranks && !st; i++) {
        const struct weir__peer *peer = &p->world->peers[p->world_rank[i]];

        if ((awaited != i && awaited != WEIR__NCCL_ANYBODY) || !atomic_load(&peer->gone))
            continue;
        st = WEIR_EUNAVAILABLE;
        snprintf(text, size, "%s", peer->text);
    }
    weir__mutex_unlock(&p->world->lock);
    return st;
}

weir_status weir__nccl_await(struct weir__procs_group *p, const struct weir__nccl_api *api,
                             void *comm, const char *what, int code, int awaited,
                             uint64_t deadline_ns)
{
    char text[WEIR__WIRE_TEXT];
    weir_status st;

    for (int naps = 0; code == IN_PROGRESS; naps++) {
        int asked = api->async_error(comm, &code);

        if (asked)
            code = asked;
        if (code != IN_PROGRESS)
            break;
        if ((st = find_reason(p, awaited, text, sizeof text)))
            return weir__fail(st, "NCCL: %s: %s", what, text);
        if (weir__clock_ns() >= deadline_ns)
            return weir__fail(WEIR_ETIMEDOUT, "NCCL: %s did not end in time", what);
        nanosleep(&(struct timespec){.tv_nsec = naps < NAPS ? NAP_NS : LONG_NAP_NS}, NULL);
    }
    return code ? weir__nccl_fail(api, comm, what, code) : WEIR_OK;
}

weir_status weir__nccl_comm_make(struct weir__procs_group *p, const struct weir__nccl_api *api,
                                 const struct weir__nccl_id *id, int ranks, int rank, int awaited,
                                 uint64_t deadline_ns, void **comm)
{
    const struct weir__world *w = p->world;
    struct weir__nccl_config config = {
        .size = sizeof config,
        .magic = WEIR__NCCL_MAGIC,
        .version = WEIR__NCCL_VERSION,
        .blocking = 0,
        .cluster = INT32_MIN,
        .min_ctas = w->cores ? 1 : INT32_MIN,
        .max_ctas = w->cores ? w->cores : INT32_MIN,
        .split_share = INT32_MIN,
    };
    bool entered = w->sharing->enter(w->device);
    weir_status st;
    int code;

    *comm = NULL;
    code = api->init(comm, ranks, *id, rank, &config);
    st = *comm ? weir__nccl_await(p, api, *comm, "a communicator", code, awaited, deadline_ns)
               : weir__nccl_fail(api, NULL, "a communicator", code);
    if (st && *comm) {
        api->abort(*comm);
        *comm = NULL;
    }
    w->sharing->exit(w->device, entered);
    return st;
}

void weir__nccl_comm_end(const struct weir__nccl_api *api, void *comm)
{
    uint64_t deadline_ns = weir__nccl_deadline(END_NS);
    int code = api->finalize ? api->finalize(comm) : 0;

    while (code == IN_PROGRESS && weir__clock_ns() < deadline_ns) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        if (api->async_error(comm, &code))
            break;
    }
    if (code == IN_PROGRESS)
        api->abort(comm); /* a member does not finalize it */
    else
        api->destroy(comm);
}
