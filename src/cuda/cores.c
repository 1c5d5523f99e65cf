/* Core limits: parts of the GPU as green contexts.
 *
 * The cores are split once into units of the smallest size the hardware gives. A limit gets a
 * run of neighbouring units, the least used ones: streams whose limits fit beside each other
 * have no core in common. A part is made once and kept, since making one takes milliseconds. */
#include "cuda/cuda.h"

weir_status weir__cuda_cores_open(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_cores *c = &dev->cores;
    struct weir__cu_resource all, rest;
    unsigned groups = WEIR__CUDA_UNITS;
    weir_status st;

    c->total = (unsigned)dev->base.props.cores.cube;
    if ((st = weir__cuda_check(dev, cu->device_resource(dev->device, &all, CU_RESOURCE_SM),
                               "the cores")))
        return st;
    c->unit = all.u.sm.min_part ? all.u.sm.min_part : 8;
    if (c->total / c->unit < groups)
        groups = c->total / c->unit;
    if ((st = weir__cuda_check(dev, cu->resource_split(c->units, &groups, &all, &rest, 0, c->unit),
                               "parts of the cores")))
        return st;
    c->nunits = groups;
    if (groups)
        c->unit = c->units[0].u.sm.sm_count;
    return WEIR_OK;
}

void weir__cuda_cores_close(struct weir__cuda *dev)
{
    while (dev->cores.parts) {
        struct weir__cuda_part *part = dev->cores.parts;

        dev->cores.parts = part->next;
        dev->api->cu.green_destroy(part->green);
        weir__free(part);
    }
}

int weir__cuda_round_limit(const weir_device *base, int cores)
{
    const struct weir__cuda_cores *c = &weir__cuda(base)->cores;
    unsigned units = (unsigned)cores / c->unit;

    if ((unsigned)cores >= c->total || !c->nunits)
        return (int)c->total;
    return (int)((units ? units < c->nunits ? units : c->nunits : 1) * c->unit);
}

/* The run of units with the fewest users: other streams that have them now. */
static unsigned choose_units(const struct weir__cuda_stream *me, unsigned count)
{
    struct weir__cuda *dev = weir__cuda(me->base.dev);
    const struct weir__cuda_cores *c = &dev->cores;
    unsigned best = 0, least = UINT32_MAX, used[WEIR__CUDA_UNITS] = {0};

    for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next)
        for (unsigned i = 0; s != me && s->base.live && s->part && i < s->part->count; i++)
            used[s->part->first + i]++;
    for (unsigned first = 0; first + count <= c->nunits; first++) {
        unsigned users = 0;

        for (unsigned i = 0; i < count; i++)
            users += used[first + i];
        if (users < least) {
            least = users;
            best = first;
        }
    }
    return best;
}

static weir_status make_part(struct weir__cuda *dev, unsigned first, unsigned count,
                             struct weir__cuda_part **out)
{
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_part *part = weir__calloc(1, sizeof *part);
    weir__cu_descriptor descriptor;
    weir_status st;

    if (!part)
        return weir__fail(WEIR_ENOMEM, "a part of the cores of %s", dev->base.props.name);
    if ((st = weir__cuda_check(
             dev, cu->resource_descriptor(&descriptor, &dev->cores.units[first], count),
             "a part of the cores")) ||
        (st = weir__cuda_check(
             dev, cu->green_create(&part->green, descriptor, dev->device, CU_GREEN_DEFAULT_STREAM),
             "a part of the cores"))) {
        weir__free(part);
        return st;
    }
    part->first = first;
    part->count = count;
    part->cores = count * dev->cores.unit;
    part->next = dev->cores.parts;
    dev->cores.parts = part;
    *out = part;
    return WEIR_OK;
}

static weir_status find_part(struct weir__cuda *dev, unsigned first, unsigned count,
                             struct weir__cuda_part **out)
{
    for (*out = dev->cores.parts; *out; *out = (*out)->next)
        if ((*out)->first == first && (*out)->count == count)
            return WEIR_OK;
    return make_part(dev, first, count, out);
}

weir_status weir__cuda_part(struct weir__cuda_stream *s, unsigned cores,
                            const struct weir__cuda_part **out)
{
    struct weir__cuda *dev = weir__cuda(s->base.dev);
    struct weir__cuda_cores *c = &dev->cores;
    struct weir__cuda_part *part;
    unsigned count;
    weir_status st;

    *out = NULL;
    if (cores >= c->total || !c->nunits) {
        if (cores != UINT32_MAX && !s->base.limit.cube && !s->base.limit.vector)
            s->part = NULL; /* others may have it */
        return WEIR_OK;
    }
    if (s->part && s->part_cores == cores) {
        *out = s->part;
        return WEIR_OK;
    }
    count = (unsigned)weir__cuda_round_limit(&dev->base, (int)cores) / c->unit;
    if ((st = find_part(dev, choose_units(s, count), count, &part)))
        return st;
    s->part = *out = part;
    s->part_cores = cores;
    return WEIR_OK;
}

weir_status weir__cuda_new_stream(struct weir__cuda *dev, const struct weir__cuda_part *part,
                                  int priority, weir__cu_stream *out)
{
    const struct weir__cu *cu = &dev->api->cu;

    return weir__cuda_check(
        dev,
        part ? cu->green_stream(out, part->green, CU_STREAM_NON_BLOCKING, priority)
             : cu->stream_create(out, CU_STREAM_NON_BLOCKING, priority),
        "a stream");
}
