/* Programs as parts of a graph that another library captures. Their kernels read which run they
 * belong to from device memory, which is written before each launch. */
#include "cuda/fault/faults.h"
#include "cuda/program/program.h"

struct weir__reel {
    struct weir__cuda *dev;
    weir__cu_address run; /* as weir__program.run; 0 if no program may fail */
    bool run_is_new;
    struct weir__cuda_props props; /* freed at the first launch, when the capture has ended */
};

weir_status weir__cuda_reel_open(weir_device *base, struct weir__reel **out)
{
    if (!(*out = weir__calloc(1, sizeof **out)))
        return weir__fail_nomem("making a tape");
    (*out)->dev = weir__cuda_of(base);
    return WEIR_OK;
}

void weir__cuda_reel_close(struct weir__reel *reel)
{
    bool pushed = weir__cuda_enter(reel->dev);

    weir__cuda_props_free(&reel->dev->api->cu, &reel->props);
    if (reel->run)
        weir__cuda_free(reel->dev, (void *)(uintptr_t)reel->run);
    weir__cuda_leave(reel->dev, pushed);
    weir__free(reel);
}

/* Refuses nodes with core limits: parts of the cores may change when other limits are set, and then
 * only weir's own graphs are captured again. */
static weir_status check_parts(const struct weir__program *p)
{
    const struct weir__cuda_part *part;
    weir_status st;

    for (int i = 0; i < p->norder; i++) {
        const struct weir__kernel *k = &weir__cuda_item_at(p, p->order[i])->kernel;
        struct weir__cuda_stream *s = weir__cuda_stream_of(p->lanes[p->order[i].lane].stream);

        part = NULL;
        if (weir__cuda_item_at(p, p->order[i])->is_wait || k->engine > WEIR_ENGINE_MIX)
            continue;
        if ((st = weir__cuda_find_part(s, k->cores, &part)))
            return st;
        if (part)
            return weir__fail(WEIR_EUNSUPPORTED,
                              "node '%s' has a core limit, which tapes do not support", k->name);
    }
    return WEIR_OK;
}

static weir_status add(struct weir__reel *reel, struct weir__program *p, void *native)
{
    weir_status st = check_parts(p);

    if (!st && p->fallible && !reel->run) {
        st = weir__cuda_check(
            reel->dev, reel->dev->api->cu.memory_alloc(&reel->run, sizeof(uint64_t)), "a tape");
        reel->run = st ? 0 : reel->run;
        reel->run_is_new = !st;
    }
    if (st)
        return st;
    weir__cuda_arrange(p);
    p->run = reel->run;
    st = weir__cuda_program_join(p, native, &reel->props);
    p->run = 0; /* the reel owns it */
    return st;
}

weir_status weir__cuda_reel_add(struct weir__reel *reel, struct weir__program *p,
                                const struct weir__program *like, weir_stream *const *streams,
                                void *native)
{
    weir_status st = weir__cuda_alive(reel->dev);
    bool pushed;

    if (st)
        return st;
    if (p->has_collectives || p->on_host)
        return weir__fail(WEIR_EUNSUPPORTED, "a plan with %s cannot be on a tape",
                          p->has_collectives ? "collectives" : "functions of the host");
    if (!like->autotuned)
        return weir__fail(WEIR_ESTATE, "a plan must run before it is put on a tape");
    p->autotuned = true;
    p->concurrent_set = like->concurrent_set;
    p->arrangement = like->arrangement;
    pushed = weir__cuda_enter(reel->dev);
    weir__cuda_program_begin(p, streams);
    st = add(reel, p, native);
    weir__cuda_leave(reel->dev, pushed);
    return st;
}

weir_status weir__cuda_reel_begin(struct weir__reel *reel, weir_stream *base, void *native)
{
    struct weir__cuda_stream *s = weir__cuda_stream_of(base);
    uint64_t seq = weir__stream_submitted(base) + 1;
    struct weir__cuda *dev = reel->dev;
    weir_status st = weir__cuda_alive(dev);
    bool pushed;

    if (!st && weir__cuda_failed_before(s, seq))
        st = weir__stream_error(base, seq);
    if (st || (!reel->run && !reel->props.nevents))
        return st;
    pushed = weir__cuda_enter(dev);
    weir__cuda_props_free(&dev->api->cu, &reel->props);
    if (reel->run) {
        weir__cuda_may_fail(s);
        if (reel->run_is_new) /* for memory checkers that do not see stream writes */
            st = weir__cuda_check(
                dev, dev->api->cu.fill_async(reel->run, 0, sizeof(uint64_t), native), "a tape");
        reel->run_is_new &= st != WEIR_OK;
        if (!st)
            st = weir__cuda_check(
                dev,
                dev->api->cu.stream_write(native, reel->run, WEIR__CODE_WHERE(base->slot, seq), 0),
                "a tape");
    }
    weir__cuda_leave(dev, pushed);
    return st;
}
