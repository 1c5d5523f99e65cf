#include "check/machine.h"

#include <string.h>

enum { MAX_STREAMS = 250, MAX_POSITION = 60000, MAX_BLOCKS = 60000 };

/* ---- which rules ---- */

/* Cores of a block that can be short. */
static struct weir__demand block_cores(const struct weir__machine *m,
                                       const struct weir__check_op *op)
{
    return (struct weir__demand){m->contended.cube ? op->cube : 0,
                                 m->contended.vector ? op->vector : 0};
}

/* Coarse steps will do: see the header. */
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

weir_status weir__machine_init(struct weir__machine *m, const struct weir__check_rank *rank,
                               const struct weir__check_order *order, enum weir__policy policy,
                               bool *fits)
{
    *m = (struct weir__machine){.rank = rank, .policy = policy};
    *fits = rank->nstreams <= MAX_STREAMS;
    for (int s = 0; s < rank->nstreams; s++)
        *fits &= rank->streams[s].nops <= MAX_POSITION;
    if (!*fits)
        return WEIR_OK;
    m->contended = weir__check_contended(rank, order, policy);
    m->fine = !is_plain(m);
    if (!(m->ops = weir__calloc((size_t)rank->nops, sizeof *m->ops)))
        return weir__fail(WEIR_ENOMEM, "the states of %d operators", rank->nops);
    for (int i = 0; i < rank->nops; i++) {
        const struct weir__check_op *op = &rank->ops[i];
        struct weir__demand d = block_cores(m, op);

        *fits &= op->blocks <= MAX_BLOCKS;
        if (op->take == WEIR__TAKE_NONE || (!d.cube && !d.vector))
            continue;
        m->ops[i] = (struct weir__slot_op){
            op->take == WEIR__TAKE_GANG && policy == WEIR__POLICY_BATCH ? WEIR__TAKE_TOGETHER
                                                                        : (uint8_t)op->take,
            op->blocks, d.cube, d.vector};
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

    for (int s = 0; s < m->rank->nstreams; s++)
        if (slots[s].held) {
            const struct weir__slot_op *op = &m->ops[weir__machine_head(m, slots, s)];

            left.cube -= slots[s].held * op->cube;
            left.vector -= slots[s].held * op->vector;
        }
    return left;
}

/* Blocks of the operator that there are cores for. */
static int room_for(const struct weir__slot_op *op, struct weir__demand left)
{
    int cube = op->cube ? left.cube / op->cube : op->blocks;
    int vector = op->vector ? left.vector / op->vector : op->blocks;

    return cube < vector ? cube : vector;
}

/* What it takes of `room` blocks, if its turn comes. */
static int share_of(const struct weir__slot_op *op, const struct weir__slot *slot, int room)
{
    int want = op->blocks - slot->held;

    if (op->take == WEIR__TAKE_TOGETHER)
        return room >= want ? want : 0;
    return room < want ? room : want;
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

/* The next that wants cores behind (priority, order) of `behind`; -1 at the end. */
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

/* Operators that take no cores that could be short run, or go to their meetings, as soon
 * as they can: that takes nothing from anybody. */
static void settle(const struct weir__machine *m, struct weir__slot *slots)
{
    bool again = true;

    while (again) {
        again = false;
        for (int s = 0; s < m->rank->nstreams; s++) {
            int op = weir__machine_head(m, slots, s);

            if (op < 0 || slots[s].status != WEIR__SLOT_IDLE ||
                m->ops[op].take != WEIR__TAKE_NONE || !is_ready(m, slots, op))
                continue;
            if (m->rank->ops[op].meeting >= 0)
                slots[s].status = WEIR__SLOT_MEET;
            else
                slots[s].position++;
            again = true;
        }
    }
}

/* The operator is over and its cores are free; nobody has them yet. */
static void end_op(const struct weir__machine *m, struct weir__slot *slots, int stream)
{
    stop_wanting(m, slots, stream);
    slots[stream] = (struct weir__slot){.position = slots[stream].position + 1};
    settle(m, slots);
}

/* It has got cores. Returns whether they are free again. */
static bool go_on(const struct weir__machine *m, struct weir__slot *slots, int stream, int op)
{
    const struct weir__slot_op *o = &m->ops[op];
    struct weir__slot *slot = &slots[stream];
    bool meets = m->rank->ops[op].meeting >= 0, full = slot->held == o->blocks;

    if (full)
        stop_wanting(m, slots, stream);
    if (slot->status == WEIR__SLOT_WAIT && (full || o->take == WEIR__TAKE_ANY)) {
        if (!m->fine && !meets) {
            end_op(m, slots, stream);
            return true;
        }
        slot->status = meets ? WEIR__SLOT_MEET : WEIR__SLOT_RUN;
    }
    if (slot->status == WEIR__SLOT_RUN && full && o->take == WEIR__TAKE_ANY)
        slot->status = WEIR__SLOT_DRAIN;
    return false;
}

static void share_out(const struct weir__machine *m, struct weir__slot *slots)
{
    struct weir__demand left = free_cores(m, slots);

    for (int s = next_in_turn(m, slots, -1); s >= 0;) {
        int op = weir__machine_head(m, slots, s), share;
        const struct weir__slot_op *o = &m->ops[op];
        int next = next_in_turn(m, slots, s);

        share = share_of(o, &slots[s], room_for(o, left));
        if (share) {
            slots[s].held = (uint16_t)(slots[s].held + share);
            left.cube -= share * o->cube;
            left.vector -= share * o->vector;
            if (go_on(m, slots, s, op)) {
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
    settle(m, slots);
}

static bool arrive(const struct weir__machine *m, struct weir__slot *slots, int stream, int op)
{
    if (!is_ready(m, slots, op) || m->ops[op].take == WEIR__TAKE_NONE)
        return false;
    if (!m->fine &&
        !share_of(&m->ops[op], &slots[stream], room_for(&m->ops[op], free_cores(m, slots))))
        return false;
    slots[stream].status = WEIR__SLOT_WAIT;
    want(m, slots, stream);
    share_out(m, slots);
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
        if (m->ops[op].take == WEIR__TAKE_ANY) {
            slot->status = WEIR__SLOT_DRAIN; /* the last block has started */
            stop_wanting(m, slots, stream);
            return true;
        }
        end_op(m, slots, stream);
        share_out(m, slots);
        return true;
    case WEIR__SLOT_DRAIN:
        if (!--slot->held)
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
    } else if (op->take == WEIR__TAKE_ANY && slots[stream].held == op->blocks) {
        slots[stream].status = WEIR__SLOT_DRAIN;
    } else {
        slots[stream].status = WEIR__SLOT_RUN;
    }
}
