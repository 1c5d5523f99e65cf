/* Reports for timeouts: which streams hold which cores, and which stream waits for which. Streams
 * of all devices of one kind are nodes, their waits are edges; a cycle is reported if there is one.
 * The streams keep running while they are read, so a report may be inconsistent: it is for
 * people. */
#include "soft/soft.h"

#include <stdio.h>

uint64_t weir__soft_progress(weir_device *dev)
{
    uint64_t sum = 0;

    weir__device_lock(dev);
    for (unsigned i = 0; i < dev->nstreams; i++)
        sum += weir__soft_done(dev->streams[i]);
    weir__device_unlock(dev);
    return sum;
}

bool weir__soft_untimed(weir_device *dev)
{
    bool found = false;

    weir__device_lock(dev);
    for (unsigned i = 0; i < dev->nstreams; i++)
        found |= atomic_load(&weir__soft(dev->streams[i])->untimed);
    weir__device_unlock(dev);
    return found;
}

/* ---- taking the snapshot ---- */

enum { MOST_STREAMS = 128, MOST_MISSING = 8 };

enum why { RUNS, AT_A_COMMAND, FOR_A_STREAM, FOR_A_DEVICE, FOR_CORES, FOR_PEERS };

struct stuck {
    struct weir__soft_stream *stream;
    const weir_device *dev;
    uint64_t done, queued;
    /* Copies, made under the device lock, which keeps the texts valid; "" without an operator. */
    char name[sizeof(((weir_stream *)NULL)->name)], doing[64];
    enum why why;
    unsigned cube, vector; /* cores it holds */
    unsigned wants;        /* of `kind` */
    enum weir__core_kind kind;
    struct weir__soft_stream *other; /* it waits for command `seq` of this stream */
    uint64_t seq;
    uint64_t abroad; /* the id of a device of another kind that it waits for */
    const weir_device *missing[MOST_MISSING]; /* devices whose ranks have not arrived */
    int ranks[MOST_MISSING], nmissing;
    bool reachable;
};

struct snapshot {
    struct stuck streams[MOST_STREAMS];
    int n;
    int path[MOST_STREAMS + 1], npath; /* of the search for a cycle */
    bool left[MOST_STREAMS];
};

static unsigned count_bits(const uint64_t *bits)
{
    unsigned n = 0;

    for (int i = 0; i < WEIR__MAX_CORES / 64; i++)
        n += (unsigned)__builtin_popcountll(bits[i]);
    return n;
}

/* Returns the command at the head of a stream that waits in the scheduler; NULL if there is none.
 * The caller holds the scheduler lock, so nobody takes the stream out or moves its head. */
static const struct weir__cmd *head_of(const struct weir__soft_stream *s)
{
    const struct weir__cmd *cmd = (const struct weir__cmd *)(s->head->bytes + s->head_at);

    if (atomic_load_explicit(&s->pending, memory_order_acquire) == s->consumed)
        return NULL;
    if (cmd->kind == WEIR__CMD_JUMP)
        cmd = (const struct weir__cmd *)cmd->u.chunk->bytes;
    if (cmd->kind == WEIR__CMD_LANE)
        cmd = (const struct weir__cmd *)(cmd->u.lane->commands + (s->lane_left ? s->lane_at : 0));
    return cmd;
}

/* Reads from the scheduler which cores the stream wants or holds. */
static void see_cores(struct stuck *k, struct weir__sched *sched)
{
    struct weir__soft_stream *s = k->stream;

    weir__spin_lock(&sched->lock);
    k->kind = s->entry.kind;
    if (s->entry.want == WEIR__WANTS_GANG) {
        k->why = FOR_CORES;
        k->wants = s->run.cores;
    } else if (s->entry.want == WEIR__WANTS_CORE) {
        const struct weir__cmd *cmd = head_of(s);
        bool kernel = cmd && cmd->kind == WEIR__CMD_KERNEL;

        k->why = FOR_CORES;
        k->wants = kernel && cmd->gang ? cmd->cores : 1;
        if (kernel)
            snprintf(k->doing, sizeof k->doing, "%s", cmd->name);
    } else if (*k->doing) {
        k->why = RUNS;
        /* Do not read s->run.cmd: it may be freed. A gang's core sets are valid while it has
         * them. */
        k->cube = count_bits(s->run.gang_cube);
        k->vector = count_bits(s->run.gang_vector);
        if (!k->cube && !k->vector) /* not a gang; s->run is unused if one worker runs it alone */
            k->cube = s->run.running ? s->run.running : 1;
    }
    weir__spin_unlock(&sched->lock);
}

static void see_stream(struct snapshot *all, weir_stream *base)
{
    struct weir__soft_stream *s = weir__soft(base);
    struct stuck k = {
        .stream = s,
        .dev = base->dev,
        .done = weir__soft_done(base),
        .queued = weir__stream_submitted(base),
        .other = atomic_load(&s->waits_for),
        .seq = atomic_load(&s->waits_seq),
        .abroad = atomic_load(&s->waits_device),
        .why = AT_A_COMMAND,
    };
    const char *doing = atomic_load(&s->doing);

    if (k.done == k.queued || all->n == MOST_STREAMS)
        return;
    snprintf(k.name, sizeof k.name, "%s", base->name);
    snprintf(k.doing, sizeof k.doing, "%s", doing ? doing : "");
    if (k.other)
        k.why = FOR_A_STREAM;
    else if (k.abroad)
        k.why = FOR_A_DEVICE;
    else
        see_cores(&k, weir__soft_sched(s));
    all->streams[all->n++] = k;
}

static void see_device(struct snapshot *all, weir_device *dev)
{
    weir__device_lock(dev);
    for (unsigned i = 0; i < dev->nstreams; i++)
        see_stream(all, dev->streams[i]);
    weir__device_unlock(dev);
}

/* Notes that the participant waits for the ranks in `missing`. */
static void see_participant(const struct weir__participant *participant, const weir_group *group,
                            const struct weir__ranks *missing, void *user)
{
    struct snapshot *all = user;

    for (int i = 0; i < all->n; i++) {
        struct stuck *k = &all->streams[i];

        if (&k->stream->participant != participant)
            continue;
        k->why = FOR_PEERS;
        WEIR__EACH_RANK(rank, missing)
        {
            if (k->nmissing == MOST_MISSING)
                break;
            k->ranks[k->nmissing] = rank;
            k->missing[k->nmissing++] = group->ranks[rank].dev;
        }
    }
}

/* ---- the graph of waits ---- */

static bool waits_for(const struct stuck *a, const struct stuck *b)
{
    switch (a->why) {
    case FOR_A_STREAM:
        return a->other == b->stream;
    case FOR_CORES:
        return a->dev == b->dev && a != b && (b->cube || b->vector);
    case FOR_PEERS:
        for (int i = 0; i < a->nmissing; i++)
            if (a->missing[i] == b->dev)
                return a != b;
        return false;
    case RUNS:
    case AT_A_COMMAND:
    case FOR_A_DEVICE: /* whose streams are not in this report */
        break;
    }
    return false;
}

static void reach(struct snapshot *all, int from)
{
    if (all->streams[from].reachable)
        return;
    all->streams[from].reachable = true;
    for (int to = 0; to < all->n; to++)
        if (waits_for(&all->streams[from], &all->streams[to]))
            reach(all, to);
}

/* Searches for a cycle that is reachable from `at`. True: it is path[*from .. npath-1]. */
static bool find_cycle(struct snapshot *all, int at, int *from)
{
    for (int i = 0; i < all->npath; i++)
        if (all->path[i] == at) {
            *from = i;
            return true;
        }
    if (all->left[at])
        return false;
    all->path[all->npath++] = at;
    for (int to = 0; to < all->n; to++)
        if (waits_for(&all->streams[at], &all->streams[to]) && find_cycle(all, to, from))
            return true;
    all->npath--;
    all->left[at] = true;
    return false;
}

/* ---- saying it ---- */

static void say_cores(struct weir__text *text, unsigned cube, unsigned vector)
{
    if (cube)
        weir__text_add(text, "%u%s core%s", cube, vector ? " cube" : "", cube == 1 ? "" : "s");
    if (vector)
        weir__text_add(text, "%s%u vector core%s", cube ? " and " : "", vector,
                       vector == 1 ? "" : "s");
}

/* Returns the stream's name if it is in the snapshot, else "?". */
static const char *name_of(const struct snapshot *all, const struct weir__soft_stream *s)
{
    for (int i = 0; i < all->n; i++)
        if (all->streams[i].stream == s)
            return all->streams[i].name;
    return "?";
}

static void say_stuck(struct weir__text *text, const struct snapshot *all, const struct stuck *k)
{
    const struct weir__sched *sched = weir__soft_sched(k->stream);
    const char *kind = !sched->split                  ? ""
                       : k->kind == WEIR__CORE_VECTOR ? "vector "
                       : k->kind == WEIR__CORE_CUBE   ? "cube "
                                                      : "mix ";

    weir__text_add(text, "\n  stream '%s' of device %llu (%s): %llu of %llu commands completed, ",
                   k->name, (unsigned long long)k->dev->id, k->dev->props.name,
                   (unsigned long long)k->done, (unsigned long long)k->queued);
    if (*k->doing)
        weir__text_add(text, "at operator '%s', ", k->doing);
    switch (k->why) {
    case RUNS:
        weir__text_add(text, "which runs");
        if (k->cube || k->vector) {
            weir__text_add(text, " and holds ");
            say_cores(text, k->cube, k->vector);
        }
        break;
    case AT_A_COMMAND:
        weir__text_add(text, "at its next command");
        break;
    case FOR_A_STREAM:
        weir__text_add(text, "waits for command %llu of stream '%s' of device %llu",
                       (unsigned long long)k->seq, name_of(all, k->other),
                       (unsigned long long)k->other->base.dev->id);
        break;
    case FOR_A_DEVICE:
        weir__text_add(text, "waits for a stream of device %llu", (unsigned long long)k->abroad);
        break;
    case FOR_CORES:
        weir__text_add(text, "waits for %u %score%s", k->wants, kind, k->wants == 1 ? "" : "s");
        break;
    case FOR_PEERS:
        weir__text_add(text, "waits for");
        for (int i = 0; i < k->nmissing; i++)
            if (k->missing[i])
                weir__text_add(text, "%s rank %d (device %llu)", i ? "," : "", k->ranks[i],
                               (unsigned long long)k->missing[i]->id);
            else
                weir__text_add(text, "%s rank %d (another process)", i ? "," : "", k->ranks[i]);
        break;
    }
}

static void say_cycle(struct weir__text *text, const struct snapshot *all, int from)
{
    weir__text_add(text, "cycle: ");
    for (int i = from; i <= all->npath; i++) {
        const struct stuck *k = &all->streams[all->path[i < all->npath ? i : from]];

        weir__text_add(text, "%sstream '%s' of device %llu", i > from ? " waits for " : "", k->name,
                       (unsigned long long)k->dev->id);
    }
}

void weir__soft_report(weir_device *const *devs, int ndevs, struct weir__text *report,
                       struct weir__text *cycle)
{
    struct snapshot *all = weir__calloc(1, sizeof *all);
    int from;

    if (!all) /* out of memory: the timeout is reported without these lines */
        return;
    for (weir_device *d = weir__devices_hold(); d; d = d->next_open)
        if (d->driver == devs[0]->driver)
            see_device(all, d);
    weir__groups_each_participant(see_participant, all);
    for (int i = 0; i < all->n; i++)
        for (int j = 0; j < ndevs; j++)
            if (all->streams[i].dev == devs[j])
                reach(all, i);
    for (int i = 0; i < all->n; i++)
        if (all->streams[i].reachable)
            say_stuck(report, all, &all->streams[i]);
    for (int i = 0; i < all->n; i++)
        if (all->streams[i].reachable && find_cycle(all, i, &from)) {
            say_cycle(cycle, all, from);
            break;
        }
    weir__devices_release();
    weir__free(all);
}
