#include "check/deadlock/machine.h"

#include <string.h>

enum { MAX_STREAMS = 250, MAX_POSITION = 60000, MAX_BLOCKS = 30000 };

/* ---- coarse or fine steps ---- */

/* The cores of a block, without the kinds that are never short. */
static struct weir__demand block_cores(const struct weir__machine *m,
                                       const struct weir__check_op *op)
{
    return (struct weir__demand){m->contended.cube ? op->cube : 0,
                                 m->contended.vector ? op->vector : 0};
}

/* True if coarse steps suffice: see the header. */
static bool is_plain(const struct weir__machine *m)
{
    struct weir__demand unit = {0, 0};
    int priority = 0;
    bool any = false;

    for (int i = 0; i < m->rank->nops; i++) {
        const struct weir__check_op *op = &m->rank->ops[i];
        struct weir__demand d = block_cores(m, op);

        if (op->take == WEIR__TAKE_NONE || (!d.cube && !d.vector))
            continue;
        if ((d.cube && d.vector) || (d.cube && unit.cube && d.cube != unit.cube) ||
            (d.vector && unit.vector && d.vector != unit.vector))
            return false;
        unit.cube = d.cube ? d.cube : unit.cube;
        unit.vector = d.vector ? d.vector : unit.vector;
        if (!weir__check_holds(op, m->policy))
            continue;
        if (any && priority != m->rank->streams[op->stream].priority)
            return false;
        priority = m->rank->streams[op->stream].priority;
        any = true;
    }
    return true;
}

/* True if a collective takes cores that can be short. */
static bool has_rendezvous(const struct weir__machine *m)
{
    for (int i = 0; i < m->rank->nops; i++) {
        struct weir__demand d = block_cores(m, &m->rank->ops[i]);

        if (m->rank->ops[i].rendezvous >= 0 && m->rank->ops[i].take != WEIR__TAKE_NONE &&
            (d.cube || d.vector))
            return true;
    }
    return false;
}

weir_status weir__machine_init(struct weir__machine *m, const struct weir__check_rank *rank,
                               const struct weir__check_order *order, enum weir__policy policy,
                               bool *fits)
{
    *m = (struct weir__machine){.rank = rank, .policy = policy};
    m->contended = weir__check_contended(rank, order, policy);
    m->fine = !is_plain(m);
    /* With coarse steps only the oldest waiter can be short of cores, and every operator but a
     * collective frees its cores in the end. So without collectives no waiter waits for ever. */
    if (!m->fine && !has_rendezvous(m))
        m->contended = (struct weir__contended){false, false};
    *fits = rank->nstreams <= MAX_STREAMS;
    for (int s = 0; s < rank->nstreams; s++)
        *fits &= rank->streams[s].nops <= MAX_POSITION;
    if (!*fits)
        return WEIR_OK;
    if (!(m->ops = weir__calloc((size_t)rank->nops, sizeof *m->ops)))
        return weir__fail_nomem("allocating the states of %d operators", rank->nops);
    for (int i = 0; i < rank->nops; i++) {
        const struct weir__check_op *op = &rank->ops[i];
        struct weir__demand d = block_cores(m, op);

        *fits &= op->blocks <= MAX_BLOCKS;
        if (op->take == WEIR__TAKE_NONE || (!d.cube && !d.vector))
            continue;
        m->ops[i] = (struct weir__slot_op){
            op->take == WEIR__TAKE_GANG && policy == WEIR__POLICY_BATCH ? WEIR__TAKE_TOGETHER
                                                                        : (uint8_t)op->take,
            op->asked > op->blocks, op->blocks, d.cube, d.vector};
    }
    return WEIR_OK;
}

void weir__machine_fini(struct weir__machine *m)
{
    weir__free(m->ops);
    m->ops = NULL;
}

/* ---- cores ---- */

static struct weir__demand free_cores(const struct weir__machine *m, const struct weir__slot *slots)
{
    struct weir__demand left = {m->rank->cube, m->rank->vector};

    for (int s = 0; s < m->rank->nstreams; s++) {
        left.cube -= slots[s].cube;
        left.vector -= slots[s].vector;
    }
    return left;
}

/* Returns the cores that the operator takes when `left` cores are free and its turn comes. */
static struct weir__demand share_of(const struct weir__slot_op *op, const struct weir__slot *slot,
                                    struct weir__demand left)
{
    struct weir__demand want = {op->blocks * op->cube - slot->cube,
                                op->blocks * op->vector - slot->vector};
    int blocks;

    if (op->take == WEIR__TAKE_GANG)
        return (struct weir__demand){(int)weir__min(want.cube, left.cube),
                                     (int)weir__min(want.vector, left.vector)};
    if (want.cube <= left.cube && want.vector <= left.vector)
        return want;
    if (op->take == WEIR__TAKE_TOGETHER)
        return (struct weir__demand){0, 0};
    blocks = op->cube ? left.cube / op->cube : op->blocks;
    if (op->vector && left.vector / op->vector < blocks)
        blocks = left.vector / op->vector;
    if (op->cube && want.cube / op->cube < blocks)
        blocks = want.cube / op->cube;
    if (op->vector && want.vector / op->vector < blocks)
        blocks = want.vector / op->vector;
    return (struct weir__demand){blocks * op->cube, blocks * op->vector};
}

static void stop_wanting(const struct weir__machine *m, struct weir__slot *slots, int stream)
{
    uint8_t order = slots[stream].order;

    if (!order)
        return;
    slots[stream].order = 0;
    for (int s = 0; s < m->rank->nstreams; s++)
        slots[s].order -= slots[s].order > order;
}

static void want(const struct weir__machine *m, struct weir__slot *slots, int stream)
{
    uint8_t last = 0;

    for (int s = 0; s < m->rank->nstreams; s++)
        last = slots[s].order > last ? slots[s].order : last;
    slots[stream].order = last + 1;
}

/* Returns the stream whose operator wants cores and follows `behind` in (priority, order); -1 at
 * the end. */
static int next_in_turn(const struct weir__machine *m, const struct weir__slot *slots, int behind)
{
    const struct weir__check_stream *streams = m->rank->streams;
    int next = -1;

    for (int s = 0; s < m->rank->nstreams; s++) {
        if (!slots[s].order || s == behind)
            continue;
        if (behind >= 0 && (streams[s].priority < streams[behind].priority ||
                            (streams[s].priority == streams[behind].priority &&
                             slots[s].order < slots[behind].order)))
            continue;
        if (next < 0 || streams[s].priority < streams[next].priority ||
            (streams[s].priority == streams[next].priority && slots[s].order < slots[next].order))
            next = s;
    }
    return next;
}

/* ---- steps ---- */

static bool is_ready(const struct weir__machine *m, const struct weir__slot *slots, int op)
{
    const struct weir__check_op *o = &m->rank->ops[op];

    for (int i = 0; i < o->nafter; i++) {
        const struct weir__check_op *before = &m->rank->ops[o->after[i]];

        if (slots[before->stream].position <= before->position)
            return false;
    }
    return true;
}

/* Runs operators that take no contended cores, or starts them if they are collectives, as soon as
 * they are ready. This affects no other operator's cores. */
static void run_coreless(const struct weir__machine *m, struct weir__slot *slots)
{
    bool again = true;

    while (again) {
        again = false;
        for (int s = 0; s < m->rank->nstreams; s++) {
            int op = weir__machine_head(m, slots, s);

            if (op < 0 || slots[s].status != WEIR__SLOT_IDLE ||
                m->ops[op].take != WEIR__TAKE_NONE || !is_ready(m, slots, op))
                continue;
            if (m->rank->ops[op].rendezvous >= 0)
                slots[s].status = WEIR__SLOT_MEET;
            else
                slots[s].position++;
            again = true;
        }
    }
}

/* Ends the operator and frees its cores, without giving them to other operators yet. */
static void end_op(const struct weir__machine *m, struct weir__slot *slots, int stream)
{
    stop_wanting(m, slots, stream);
    slots[stream] = (struct weir__slot){.position = slots[stream].position + 1};
    run_coreless(m, slots);
}

/* Updates the operator's status after it received cores. True if it ended and freed them. */
static bool use_cores(const struct weir__machine *m, struct weir__slot *slots, int stream, int op)
{
    const struct weir__slot_op *o = &m->ops[op];
    struct weir__slot *slot = &slots[stream];
    bool meets = m->rank->ops[op].rendezvous >= 0;
    bool full = slot->cube == o->blocks * o->cube && slot->vector == o->blocks * o->vector;

    if (full && !o->waves)
        stop_wanting(m, slots, stream);
    if (slot->status == WEIR__SLOT_WAIT && (full || o->take == WEIR__TAKE_ANY)) {
        if (!m->fine && !meets) {
            end_op(m, slots, stream);
            return true;
        }
        slot->status = meets ? WEIR__SLOT_MEET : WEIR__SLOT_RUN;
    }
    if (slot->status == WEIR__SLOT_RUN && !slot->order && o->take == WEIR__TAKE_ANY)
        slot->status = WEIR__SLOT_DRAIN;
    return false;
}

static void share_out(const struct weir__machine *m, struct weir__slot *slots)
{
    struct weir__demand left = free_cores(m, slots);

    for (int s = next_in_turn(m, slots, -1); s >= 0;) {
        int op = weir__machine_head(m, slots, s), next = next_in_turn(m, slots, s);
        struct weir__demand share = share_of(&m->ops[op], &slots[s], left);

        if (share.cube || share.vector) {
            slots[s].cube = (uint16_t)(slots[s].cube + share.cube);
            slots[s].vector = (uint16_t)(slots[s].vector + share.vector);
            left.cube -= share.cube;
            left.vector -= share.vector;
            if (use_cores(m, slots, s, op)) {
                left = free_cores(m, slots);
                next = next_in_turn(m, slots, -1);
            }
        }
        s = next;
    }
}

void weir__machine_start(const struct weir__machine *m, struct weir__slot *slots)
{
    memset(slots, 0, (size_t)m->rank->nstreams * sizeof *slots);
    run_coreless(m, slots);
}

static bool arrive(const struct weir__machine *m, struct weir__slot *slots, int stream, int op)
{
    struct weir__demand share;

    if (!is_ready(m, slots, op) || m->ops[op].take == WEIR__TAKE_NONE)
        return false;
    share = share_of(&m->ops[op], &slots[stream], free_cores(m, slots));
    if (!m->fine && !share.cube && !share.vector)
        return false;
    slots[stream].status = WEIR__SLOT_WAIT;
    want(m, slots, stream);
    share_out(m, slots);
    return true;
}

static void end_block(const struct weir__machine *m, struct weir__slot *slots, int stream, int op)
{
    slots[stream].cube = (uint16_t)(slots[stream].cube - m->ops[op].cube);
    slots[stream].vector = (uint16_t)(slots[stream].vector - m->ops[op].vector);
}

/* Ends a block while others are left to start. If the operator gets the same cores again, the only
 * change is one block fewer to start. The step then assumes that this was the last of them. */
static bool replace_block(const struct weir__machine *m, struct weir__slot *slots, int stream,
                          int op)
{
    struct weir__slot before[MAX_STREAMS];
    size_t size = (size_t)m->rank->nstreams * sizeof *slots;

    if (!slots[stream].cube && !slots[stream].vector)
        return false;
    memcpy(before, slots, size);
    end_block(m, slots, stream, op);
    share_out(m, slots);
    if (!memcmp(before, slots, size)) {
        slots[stream].status = WEIR__SLOT_DRAIN;
        stop_wanting(m, slots, stream);
    }
    return true;
}

bool weir__machine_move(const struct weir__machine *m, struct weir__slot *slots, int stream)
{
    int op = weir__machine_head(m, slots, stream);
    struct weir__slot *slot = &slots[stream];

    if (op < 0)
        return false;
    switch ((enum weir__slot_status)slot->status) {
    case WEIR__SLOT_IDLE:
        return arrive(m, slots, stream, op);
    case WEIR__SLOT_RUN:
        if (m->ops[op].take == WEIR__TAKE_ANY)
            return replace_block(m, slots, stream, op);
        end_op(m, slots, stream);
        share_out(m, slots);
        return true;
    case WEIR__SLOT_DRAIN:
        end_block(m, slots, stream, op);
        if (!slot->cube && !slot->vector)
            end_op(m, slots, stream);
        share_out(m, slots);
        return true;
    case WEIR__SLOT_WAIT:
    case WEIR__SLOT_MEET:
        break;
    }
    return false;
}

void weir__machine_meet(const struct weir__machine *m, struct weir__slot *slots, int stream)
{
    const struct weir__slot_op *op = &m->ops[weir__machine_head(m, slots, stream)];

    if (!m->fine || op->take == WEIR__TAKE_NONE) {
        end_op(m, slots, stream);
        share_out(m, slots);
    } else if (op->take == WEIR__TAKE_ANY && !slots[stream].order) {
        slots[stream].status = WEIR__SLOT_DRAIN;
    } else {
        slots[stream].status = WEIR__SLOT_RUN;
    }
}
