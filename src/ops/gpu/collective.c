/* Parts of collectives on a GPU. */
#include "ops/host/move/collective.h"

#include <stdio.h>
#include <string.h>

#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"
#include "ops/host/move/moe.h"
#include "ops/host/part.h"
#include "ops/host/row.h"
#include "ops/tile.h"

_Static_assert(WEIR__PART_RANKS == WEIR__CODE_RANKS, "a part has room for every rank");
_Static_assert(sizeof(struct weir__reduce_part) <= WEIR_ARGS_MAX, "parts are arguments");
_Static_assert(sizeof(struct weir__move_part) <= WEIR_ARGS_MAX, "parts are arguments");
_Static_assert(sizeof(struct weir__moe_part) <= WEIR_ARGS_MAX, "parts are arguments");

/* The number of elements of `size` bytes that a thread moves at once. */
static int64_t at_once(int64_t size)
{
    return 16 / size;
}

static int64_t bytes_of(const struct weir__collective_args *a)
{
    return a->numel * (int64_t)weir__elem_size((weir_dtype)a->dtype);
}

static int collective_shown(const void *args, struct weir__code_shown *shown)
{
    const struct weir__collective_args *a = args;

    shown[0] = (struct weir__code_shown){.offset = offsetof(struct weir__collective_args, in),
                                         .bytes = bytes_of(a)};
    return 1;
}

/* ---- reducing ---- */

static void reduce_shape(const void *args, unsigned phase, unsigned cores,
                         struct weir__code_launch *l)
{
    const struct weir__collective_args *a = args;
    int64_t n = a->meet.pulls && !a->scatter ? a->numel : weir__div_up(a->numel, a->ranks);

    (void)phase;
    l->variant[0] = a->dtype;
    l->variant[1] = a->reduce;
    weir__gpu_spread_threads(
        weir__div_up(n, at_once((int64_t)weir__elem_size((weir_dtype)a->dtype))), cores, l);
}

/* Each rank writes its slice to all outputs; with `pull`, all of the result to its own output. */
static void reduce_gather(const void *args, const void *const *peers, bool pull, void *out)
{
    const struct weir__collective_args *a = args;
    struct weir__reduce_part *part = out;
    weir_block mine = {.index = (unsigned)a->meet.rank, .count = (unsigned)a->ranks};
    struct weir__range slice = weir__tile_range(a->numel, 64, &mine);

    if (a->scatter)
        slice = (struct weir__range){a->numel / a->ranks * a->meet.rank,
                                     a->numel / a->ranks * (a->meet.rank + 1)};
    else if (pull)
        slice = (struct weir__range){0, a->numel};
    part->begin = slice.begin;
    part->end = slice.end;
    part->shift = a->scatter ? slice.begin : 0;
    part->ranks = a->ranks;
    part->nout = a->scatter || pull ? 1 : a->ranks;
    part->dtype = a->dtype;
    part->reduce = a->reduce;
    for (int i = 0; i < a->ranks; i++) {
        const struct weir__collective_args *peer = peers[i];

        part->in[i] = peer->in;
        part->out[i] = peer->out;
    }
    if (part->nout == 1)
        part->out[0] = a->out;
}

const struct weir__code weir__gpu_reduce_part = {
    .text = "reduce_part",
    .shape = reduce_shape,
    .shown = collective_shown,
    .gather = reduce_gather,
};

/* ---- moving ---- */

static void move_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct weir__collective_args *a = args;
    int64_t bytes = bytes_of(a);

    (void)phase;
    if (a->move == WEIR__MOVE_GATHER)
        bytes *= a->ranks;
    else if (a->move == WEIR__MOVE_COUNTS) /* a rank may receive much and send nothing */
        bytes = weir__rows_before(a->counts + a->ranks, a->ranks) * a->row;
    weir__gpu_spread_threads(weir__div_up(bytes, 16), cores, l);
}

static void move_gather(const void *args, const void *const *peers, bool pull, void *out)
{
    const struct weir__collective_args *a = args;
    struct weir__move_part *part = out;
    bool one = a->move == WEIR__MOVE_BROADCAST || a->move == WEIR__MOVE_RECEIVE;

    (void)pull; /* pulls in any case */
    part->n = 0;
    for (int i = one ? a->peer : 0; i < (one ? a->peer + 1 : a->ranks); i++)
        part->pieces[part->n++] = weir__move_piece(a, peers[i], i);
}

const struct weir__code weir__gpu_move_part = {
    .text = "move_part",
    .shape = move_shape,
    .shown = collective_shown,
    .gather = move_gather,
};

/* ---- mixture of experts ---- */

static int dispatch_shown(const void *args, struct weir__code_shown *shown)
{
    const struct weir__moe *a = args;
    int64_t elem = (int64_t)weir__elem_size((weir_dtype)a->dtype);

    shown[0] = (struct weir__code_shown){.offset = offsetof(struct weir__moe, x),
                                         .bytes = a->tokens * a->hidden * elem};
    shown[1] = (struct weir__code_shown){.offset = offsetof(struct weir__moe, experts),
                                         .bytes = a->tokens * a->k * (a->wide_experts ? 8 : 4)};
    return 2;
}

static int combine_shown(const void *args, struct weir__code_shown *shown)
{
    const struct weir__moe *a = args;

    shown[0] = (struct weir__code_shown){.offset = offsetof(struct weir__moe, x),
                                         .bytes = a->capacity * a->hidden *
                                                  (int64_t)weir__elem_size((weir_dtype)a->dtype)};
    return 1;
}

/* Phases: one block counts; a warp for every expert and source finds its slots; rows are moved. */
static void dispatch_shape(const void *args, unsigned phase, unsigned cores,
                           struct weir__code_launch *l)
{
    const struct weir__moe *a = args;

    l->variant[0] = (uint8_t)weir__elem_size((weir_dtype)a->dtype);
    l->threads = phase ? WEIR__GPU_THREADS : 1024;
    if (phase == 0)
        l->grid = 1;
    else if (phase == 1)
        weir__gpu_spread(weir__div_up(a->ranks * a->nexperts, WEIR__GPU_THREADS / 32), cores, 8, l);
    else
        weir__gpu_spread(a->capacity, cores, 8, l);
}

static void combine_shape(const void *args, unsigned phase, unsigned cores,
                          struct weir__code_launch *l)
{
    const struct weir__moe *a = args;

    (void)phase;
    l->variant[0] = a->dtype;
    l->variant[1] = a->weight_type;
    weir__gpu_spread(a->tokens, cores, 8, l);
}

static void moe_gather(const void *args, const void *const *peers, bool pull, void *out)
{
    const struct weir__moe *a = args;
    struct weir__moe_part *part = out;

    (void)pull; /* pulls in any case */
    *part = (struct weir__moe_part){
        .tokens = a->tokens,
        .k = a->k,
        .hidden = a->hidden,
        .nexperts = a->nexperts,
        .capacity = a->capacity,
        .out = a->out,
        .positions = a->positions,
        .counts = a->counts,
        .starts = a->starts,
        .routes = a->routes,
        .weights = a->weights,
        .ranks = a->ranks,
        .rank = a->meet.rank,
        .dtype = a->dtype,
        .weight_type = a->weight_type,
    };
    for (int i = 0; i < a->ranks; i++) {
        const struct weir__moe *peer = peers[i];

        part->x[i] = peer->x;
        part->experts[i] = peer->experts;
        part->wide |= (uint64_t)peer->wide_experts << i;
        part->rows[i] = a->weights ? peer->capacity : peer->tokens;
    }
    part->experts[a->meet.rank] = a->experts;
}

static void moe_explain(const void *args, const struct weir__code_failure *f, char *text,
                        size_t size)
{
    const struct weir__moe *a = args;
    int what = (int)(f->at >> 56), rank = (int)(f->at >> 48 & 0xff);
    long long token = (long long)(f->at & (((int64_t)1 << 48) - 1));

    if (what == WEIR__MOE_BAD_EXPERT)
        snprintf(text, size, WEIR__MOE_BAD_EXPERT_TEXT, (long long)f->index, token, rank,
                 (long long)a->nexperts - 1);
    else if (what == WEIR__MOE_NO_ROOM)
        snprintf(text, size, WEIR__MOE_NO_ROOM_TEXT, rank, (long long)f->index,
                 (long long)f->limit);
    else
        snprintf(text, size, WEIR__MOE_BAD_POSITION_TEXT, (long long)f->index, token, a->meet.rank,
                 rank, (long long)f->limit);
}

const struct weir__code weir__gpu_moe_dispatch = {
    .text = "moe_dispatch",
    .fails = true,
    .phases = 3,
    .shape = dispatch_shape,
    .shown = dispatch_shown,
    .gather = moe_gather,
    .explain = moe_explain,
};

const struct weir__code weir__gpu_moe_combine = {
    .text = "moe_combine",
    .fails = true,
    .shape = combine_shape,
    .shown = combine_shown,
    .gather = moe_gather,
    .explain = moe_explain,
};
