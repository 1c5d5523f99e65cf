/* GPU memory that is shared with other processes of the host, by CUDA IPC. From the time at which
 * the device joins a group of processes, the pool's memory is allocated so that others can open it.
 * Older memory, and memory that changes while others read it, is copied first. Kernels read peers'
 * memory like memory of this process. */
#include "cuda/collective/share.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda.h"

enum { STAGE_LEAST = 2 << 20, BOUNCE = 4 << 20 };

/* An allocation that other processes can open. */
struct weir__cuda_shared {
    struct weir__cuda_shared *next;
    weir__cu_address base;
    size_t size;
    uint64_t id; /* unique in this process */
    struct weir__cu_ipc handle;
    bool stages, idle; /* stages: it is for copies; idle: such a piece is not in use */
};

static struct weir__cuda_shared *make_piece(struct weir__cuda *dev, size_t size, bool stages)
{
    static _Atomic uint64_t ids;
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_shared *s = weir__calloc(1, sizeof *s);
    bool pushed = weir__cuda_enter(dev);

    if (s && cu->memory_alloc(&s->base, size)) {
        weir__free(s);
        s = NULL;
    } else if (s && cu->ipc_get(&s->handle, s->base)) {
        cu->memory_free(s->base);
        weir__free(s);
        s = NULL;
    }
    weir__cuda_leave(dev, pushed);
    if (!s)
        return NULL;
    s->size = size;
    s->stages = stages;
    s->id = atomic_fetch_add(&ids, 1) + 1;
    weir__mutex_lock(&dev->sharing.lock);
    s->next = dev->sharing.pieces;
    dev->sharing.pieces = s;
    weir__mutex_unlock(&dev->sharing.lock);
    return s;
}

static void free_piece(struct weir__cuda *dev, struct weir__cuda_shared *s)
{
    bool pushed = weir__cuda_enter(dev);

    weir__cuda_free(dev, (void *)(uintptr_t)s->base);
    weir__cuda_leave(dev, pushed);
    weir__free(s);
}

void *weir__cuda_share_map(struct weir__cuda *dev, size_t size)
{
    const struct weir__cuda_shared *s = make_piece(dev, size, false);

    return s ? (void *)(uintptr_t)s->base : NULL;
}

bool weir__cuda_share_unmap(struct weir__cuda *dev, void *address)
{
    struct weir__cuda_shared **at, *s;

    weir__mutex_lock(&dev->sharing.lock);
    for (at = &dev->sharing.pieces; *at && (*at)->base != (weir__cu_address)(uintptr_t)address;
         at = &(*at)->next)
        ;
    if ((s = *at))
        *at = s->next;
    weir__mutex_unlock(&dev->sharing.lock);
    if (!s)
        return false;
    free_piece(dev, s);
    return true;
}

void weir__cuda_share_close(struct weir__cuda *dev)
{
    bool pushed = weir__cuda_enter(dev);

    while (dev->sharing.pieces) { /* the pool's pieces were freed earlier */
        struct weir__cuda_shared *s = dev->sharing.pieces;

        dev->sharing.pieces = s->next;
        free_piece(dev, s);
    }
    if (dev->sharing.done)
        dev->api->cu.event_destroy(dev->sharing.done);
    if (dev->sharing.stream)
        dev->api->cu.stream_destroy(dev->sharing.stream);
    if (dev->sharing.bounce)
        dev->api->cu.host_free(dev->sharing.bounce);
    weir__cuda_leave(dev, pushed);
}

/* ---- functions for engines (struct weir__sharing) ---- */

static bool find(void *user, const void *address, size_t bytes, struct weir__shared_place *place,
                 unsigned char *handle)
{
    struct weir__cuda *dev = user;
    weir__cu_address at = (weir__cu_address)(uintptr_t)address;
    bool found = false;

    weir__mutex_lock(&dev->sharing.lock);
    for (const struct weir__cuda_shared *s = dev->sharing.pieces; s && !found; s = s->next)
        if (at >= s->base && at < s->base + s->size) {
            found = bytes <= s->base + s->size - at;
            *place = (struct weir__shared_place){
                .inode = s->id, .offset = at - s->base, .bytes = bytes, .size = s->size};
            memcpy(handle, &s->handle, sizeof s->handle);
        }
    weir__mutex_unlock(&dev->sharing.lock);
    return found;
}

static void *reach(void *user, struct weir__reached **list, uint32_t pid,
                   const struct weir__shared_place *place, const unsigned char *handle)
{
    struct weir__cuda *dev = user;
    struct weir__reached *r = *list;

    while (r && r->inode != place->inode)
        r = r->next;
    if (!r) {
        struct weir__cu_ipc ipc;
        weir__cu_address base;
        weir__cu_result code;
        bool pushed;

        if (!(r = weir__calloc(1, sizeof *r))) {
            weir__fail_nomem("mapping memory of process %u", pid);
            return NULL;
        }
        memcpy(&ipc, handle, sizeof ipc);
        pushed = weir__cuda_enter(dev);
        code = dev->api->cu.ipc_open(&base, ipc, CU_IPC_LAZY_PEER_ACCESS);
        weir__cuda_leave(dev, pushed);
        if (code) {
            weir__free(r);
            weir__fail(WEIR_EUNAVAILABLE, "GPU memory of process %u cannot be opened: %s", pid,
                       weir__cuda_error(code).text);
            return NULL;
        }
        r->inode = place->inode;
        r->base = (char *)(uintptr_t)base;
        r->size = place->size;
        r->next = *list;
        *list = r;
    }
    return weir__reached_at(r, pid, place);
}

static void leave(void *user, struct weir__reached **list)
{
    struct weir__cuda *dev = user;
    bool pushed = weir__cuda_enter(dev);

    while (*list) {
        struct weir__reached *r = *list;

        *list = r->next;
        dev->api->cu.ipc_close((weir__cu_address)(uintptr_t)r->base);
        weir__free(r);
    }
    weir__cuda_leave(dev, pushed);
}

static struct weir__cuda_shared *take_idle(struct weir__cuda *dev, size_t bytes)
{
    struct weir__cuda_shared *best = NULL;

    weir__mutex_lock(&dev->sharing.lock);
    for (struct weir__cuda_shared *s = dev->sharing.pieces; s; s = s->next)
        if (s->stages && s->idle && s->size >= bytes && (!best || s->size < best->size))
            best = s;
    if (best)
        best->idle = false;
    weir__mutex_unlock(&dev->sharing.lock);
    return best;
}

/* Under `copying`. */
static weir_status need_stream(struct weir__cuda *dev)
{
    if (dev->sharing.stream)
        return WEIR_OK;
    return weir__cuda_check(
        dev, dev->api->cu.stream_create(&dev->sharing.stream, CU_STREAM_NON_BLOCKING, 0),
        "a stream");
}

/* Under `copying`. Everything before the copy on the rank's stream has completed. */
static weir_status copy_now(struct weir__cuda *dev, weir__cu_address to, weir__cu_address from,
                            size_t bytes)
{
    const struct weir__cu *cu = &dev->api->cu;
    weir_status st = need_stream(dev);

    if (!st && !dev->sharing.done)
        st = weir__cuda_check(dev, cu->event_create(&dev->sharing.done, CU_EVENT_DISABLE_TIMING),
                              "an event");
    if (!st)
        st = weir__cuda_check(dev, cu->copy_async(to, from, bytes, dev->sharing.stream), "a copy");
    if (!st)
        st = weir__cuda_check(dev, cu->event_record(dev->sharing.done, dev->sharing.stream),
                              "a copy");
    if (!st)
        st = weir__cuda_check(dev, cu->event_sync(dev->sharing.done), "a copy");
    return st;
}

/* Copies to or from pageable host memory, through a pinned buffer. */
static weir_status copy_bounced(struct weir__cuda *dev, char *to, const char *from, size_t bytes,
                                bool to_host)
{
    char *bounce;
    weir_status st = WEIR_OK;

    if (!dev->sharing.bounce)
        st = weir__cuda_check(
            dev,
            dev->api->cu.host_alloc(&dev->sharing.bounce, BOUNCE, CU_HOST_ALLOC_PORTABLE_MAPPED),
            "pinned memory");
    bounce = dev->sharing.bounce;
    for (size_t at = 0; at < bytes && !st; at += BOUNCE) {
        size_t n = weir__min(bytes - at, (size_t)BOUNCE);

        if (!to_host)
            memcpy(bounce, from + at, n);
        st = to_host ? copy_now(dev, (weir__cu_address)(uintptr_t)bounce,
                                (weir__cu_address)(uintptr_t)(from + at), n)
                     : copy_now(dev, (weir__cu_address)(uintptr_t)(to + at),
                                (weir__cu_address)(uintptr_t)bounce, n);
        if (!st && to_host)
            memcpy(to + at, bounce, n);
    }
    return st;
}

enum way { WITHIN, TO_HOST, FROM_HOST };

static weir_status copy(struct weir__cuda *dev, void *to, const void *from, size_t bytes,
                        enum way way)
{
    bool pushed = weir__cuda_enter(dev);
    weir_status st;

    weir__mutex_lock(&dev->sharing.copying);
    st = way == WITHIN ? copy_now(dev, (weir__cu_address)(uintptr_t)to,
                                  (weir__cu_address)(uintptr_t)from, bytes)
                       : copy_bounced(dev, to, from, bytes, way == TO_HOST);
    weir__mutex_unlock(&dev->sharing.copying);
    weir__cuda_leave(dev, pushed);
    return st;
}

static void unstage(void *user, void *piece, size_t bytes)
{
    struct weir__cuda *dev = user;

    (void)bytes; /* the piece has its size */
    weir__mutex_lock(&dev->sharing.lock);
    for (struct weir__cuda_shared *s = dev->sharing.pieces; s; s = s->next)
        if (s->stages && s->base == (weir__cu_address)(uintptr_t)piece)
            s->idle = true;
    weir__mutex_unlock(&dev->sharing.lock);
}

static void *copy_to_piece(struct weir__cuda *dev, const void *from, size_t bytes, enum way way)
{
    struct weir__cuda_shared *s = take_idle(dev, bytes);
    size_t size = STAGE_LEAST;

    while (size < bytes)
        size *= 2;
    if (!s)
        s = make_piece(dev, size, true);
    if (!s) {
        weir__fail(WEIR_EOOM, "out of device memory: sharing %zu bytes of %s with other processes",
                   bytes, dev->base.props.name);
        return NULL;
    }
    if (copy(dev, (void *)(uintptr_t)s->base, from, bytes, way)) {
        unstage(dev, (void *)(uintptr_t)s->base, bytes);
        return NULL;
    }
    return (void *)(uintptr_t)s->base;
}

static void *stage(void *user, const void *from, size_t bytes)
{
    return copy_to_piece(user, from, bytes, WITHIN);
}

static void *place(void *user, const void *from, size_t bytes)
{
    return copy_to_piece(user, from, bytes, FROM_HOST);
}

static bool fetch(void *user, void *to, const void *from, size_t bytes)
{
    return !copy(user, to, from, bytes, TO_HOST);
}

static void *queue(void *user)
{
    struct weir__cuda *dev = user;
    bool pushed = weir__cuda_enter(dev);
    weir_status st;

    weir__mutex_lock(&dev->sharing.copying);
    st = need_stream(dev);
    weir__mutex_unlock(&dev->sharing.copying);
    weir__cuda_leave(dev, pushed);
    return st ? NULL : (void *)dev->sharing.stream;
}

/* ---- order ---- */

static weir_status mark(void *user, void **event, void *on)
{
    struct weir__cuda *dev = user;
    const struct weir__cu *cu = &dev->api->cu;
    bool pushed = weir__cuda_enter(dev);
    weir__cu_event e = *event;
    weir_status st = WEIR_OK;

    if (!e &&
        !(st = weir__cuda_check(dev, cu->event_create(&e, CU_EVENT_DISABLE_TIMING), "an event")))
        *event = e;
    if (!st)
        st = weir__cuda_check(dev, cu->event_record(e, on), "an event");
    weir__cuda_leave(dev, pushed);
    return st;
}

static weir_status follow(void *user, void *event, void *to)
{
    struct weir__cuda *dev = user;
    bool pushed = weir__cuda_enter(dev);
    weir_status st =
        event ? weir__cuda_check(dev, dev->api->cu.stream_wait(to, event, 0), "a wait") : WEIR_OK;

    weir__cuda_leave(dev, pushed);
    return st;
}

static void forget(void *user, void *event)
{
    struct weir__cuda *dev = user;
    bool pushed = weir__cuda_enter(dev);

    dev->api->cu.event_destroy(event);
    weir__cuda_leave(dev, pushed);
}

static bool enter(void *user)
{
    return weir__cuda_enter(user);
}
static void exit_context(void *user, bool entered)
{
    weir__cuda_leave(user, entered);
}

const struct weir__sharing weir__cuda_sharing = {
    .kind = "cuda",
    .most_ranks = WEIR__CODE_RANKS,
    .find = find,
    .reach = reach,
    .leave = leave,
    .stage = stage,
    .unstage = unstage,
    .fetch = fetch,
    .place = place,
    .queue = queue,
    .mark = mark,
    .follow = follow,
    .forget = forget,
    .enter = enter,
    .exit = exit_context,
};
