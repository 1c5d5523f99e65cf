/* Core limits: parts of the GPU as green contexts.
 *
 * Disjoint parts of the same split have no cores in common; parts of different splits may. How many
 * cores remain unused depends on a split's unit: of 132 cores, units of 8 cover 120, units of 64
 * cover 128. So there is a split for each of several units. All streams take their parts from one
 * split: the coarsest that can give every limit in use. When a new limit needs a finer split,
 * streams take new parts with their next commands. A limit gets neighbouring units, those with the
 * fewest users. A part is made once and kept, because making one takes milliseconds. */
#include "cuda/cuda.h"

static const unsigned units[WEIR__CUDA_SPLITS] = {64, 32, 16, 8};

weir_status weir__cuda_cores_open(struct weir__cuda *dev)
{
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_cores *c = &dev->cores;
    struct weir__cu_resource all, rest;
    weir_status st;

    c->total = (unsigned)dev->base.props.cores.cube;
    if ((st = weir__cuda_check(dev, cu->device_resource(dev->gpu.device, &all, CU_RESOURCE_SM),
                               "the cores")))
        return st;
    for (int i = 0; i < WEIR__CUDA_SPLITS; i++) {
        struct weir__cuda_split *split = &c->splits[i];
        unsigned n =
            c->total / units[i] < WEIR__CUDA_UNITS ? c->total / units[i] : WEIR__CUDA_UNITS;

        split->unit = units[i];
        if (n && !cu->resource_split(split->units, &n, &all, &rest, 0, units[i]) &&
            split->units[0].u.sm.sm_count == units[i])
            split->nunits = n;
    }
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

/* Returns the most cores, at most `cores`, that the split can give; 0 if its unit is larger. */
static unsigned most_of(const struct weir__cuda_split *split, unsigned cores)
{
    unsigned n = cores / split->unit;

    return (n < split->nunits ? n : split->nunits) * split->unit;
}

int weir__cuda_round_limit(const weir_device *base, int cores)
{
    const struct weir__cuda_cores *c = &((const struct weir__cuda *)base)->cores;
    unsigned best = 0, least = c->total;

    if ((unsigned)cores >= c->total)
        return (int)c->total;
    for (int i = 0; i < WEIR__CUDA_SPLITS; i++) {
        unsigned n = most_of(&c->splits[i], (unsigned)cores);

        best = n > best ? n : best;
        least = c->splits[i].nunits && units[i] < least ? units[i] : least;
    }
    return (int)(best ? best : least);
}

/* True if the stream uses a part: it has a limit of its own, or pending work on the part. */
static bool has_part(const struct weir__cuda_stream *s)
{
    return s->base.live && s->granted.part &&
           (s->base.limit.cube || s->base.limit.vector ||
            atomic_load_explicit(&s->word->reached, memory_order_relaxed) < s->granted.seq);
}

/* Returns the coarsest split that can give the limits of all streams; -1 if there is none. */
static int choose_split(const struct weir__cuda_stream *me, unsigned cores)
{
    struct weir__cuda *dev = weir__cuda_of(me->base.dev);

    for (int i = 0; i < WEIR__CUDA_SPLITS; i++) {
        const struct weir__cuda_split *split = &dev->cores.splits[i];
        bool fits = most_of(split, cores) == cores;

        for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s && fits; s = s->next)
            fits = s == me || !has_part(s) || most_of(split, s->granted.given) == s->granted.given;
        if (fits)
            return i;
    }
    for (int i = 0; i < WEIR__CUDA_SPLITS; i++) /* otherwise one that can give this limit */
        if (most_of(&dev->cores.splits[i], cores) == cores)
            return i;
    return -1;
}

/* Returns the start of the run of units with the fewest users among the other streams. */
static unsigned choose_units(const struct weir__cuda_stream *me, int split, unsigned count)
{
    struct weir__cuda *dev = weir__cuda_of(me->base.dev);
    unsigned best = 0, least = UINT32_MAX, used[WEIR__CUDA_UNITS] = {0};

    for (struct weir__cuda_stream *s = atomic_load(&dev->streams); s; s = s->next)
        for (unsigned i = 0; s != me && has_part(s) && s->granted.part->split == split &&
                             i < s->granted.part->count;
             i++)
            used[s->granted.part->first + i]++;
    for (unsigned first = 0; first + count <= dev->cores.splits[split].nunits; first++) {
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

static weir_status make_part(struct weir__cuda *dev, int split, unsigned first, unsigned count,
                             struct weir__cuda_part **out)
{
    const struct weir__cu *cu = &dev->api->cu;
    struct weir__cuda_part *part = weir__calloc(1, sizeof *part);
    weir__cu_descriptor descriptor;
    weir_status st;

    if (!part)
        return weir__fail_nomem("reserving a part of the cores of %s", dev->base.props.name);
    if (!(st = weir__cuda_quiesce(dev, "a part of the cores"))) {
        if (!(st = weir__cuda_check(dev,
                                    cu->resource_descriptor(
                                        &descriptor, &dev->cores.splits[split].units[first], count),
                                    "a part of the cores")))
            st = weir__cuda_check(dev,
                                  cu->green_create(&part->green, descriptor, dev->gpu.device,
                                                   CU_GREEN_DEFAULT_STREAM),
                                  "a part of the cores");
        weir__cuda_resume(dev);
    }
    if (st) {
        weir__free(part);
        return st;
    }
    part->split = split;
    part->first = first;
    part->count = count;
    part->next = dev->cores.parts;
    dev->cores.parts = part;
    *out = part;
    return WEIR_OK;
}

static weir_status find_part(struct weir__cuda *dev, int split, unsigned first, unsigned count,
                             struct weir__cuda_part **out)
{
    for (*out = dev->cores.parts; *out; *out = (*out)->next)
        if ((*out)->split == split && (*out)->first == first && (*out)->count == count)
            return WEIR_OK;
    return make_part(dev, split, first, count, out);
}

weir_status weir__cuda_find_part(struct weir__cuda_stream *s, unsigned cores,
                                 const struct weir__cuda_part **out)
{
    struct weir__cuda *dev = weir__cuda_of(s->base.dev);
    struct weir__cuda_cores *c = &dev->cores;
    struct weir__cuda_part *part;
    unsigned given;
    weir_status st;
    bool held;
    int split;

    *out = NULL;
    if (cores >= c->total)
        return WEIR_OK;
    held = has_part(s);
    s->granted.seq = weir__stream_submitted(&s->base) + 1;
    if (held && s->granted.cores == cores && s->granted.epoch == c->epoch) {
        *out = s->granted.part;
        return WEIR_OK;
    }
    given = (unsigned)weir__cuda_round_limit(&dev->base, (int)cores);
    if ((split = choose_split(s, given)) < 0)
        return WEIR_OK;
    if (split != c->current) {
        c->current = split;
        c->epoch++;
    }
    if ((st = find_part(dev, split, choose_units(s, split, given / c->splits[split].unit),
                        given / c->splits[split].unit, &part)))
        return st;
    s->granted.part = *out = part;
    s->granted.cores = cores;
    s->granted.given = given;
    s->granted.epoch = c->epoch;
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
