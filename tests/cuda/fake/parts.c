/* Parts of collectives: what the texts take, brought back into what the host's kernels do. */
#include <stdio.h>
#include <string.h>

#include "fake.h"
#include "ops/host/move/collective.h"
#include "ops/host/move/moe.h"

/* As one rank whose slice is all of it. */
static weir_status reduce_part(const void *args, const weir_block *block)
{
    const struct weir__reduce_part *p = args;
    /* The struct ends in a flexible array, of which there can be no array. */
    _Alignas(
        64) unsigned char room[WEIR__PART_RANKS][(sizeof(struct weir__collective_args) + 63) & ~63];
    const void *peers[WEIR__PART_RANKS];
    struct weir__collective_args *own = (void *)room[0];
    int64_t elem = (int64_t)weir__elem_size((weir_dtype)p->dtype), n = p->end - p->begin;
    weir_block whole = *block;
    weir_status st = WEIR_OK;

    for (int i = 0; i < p->ranks; i++) {
        *(struct weir__collective_args *)(void *)room[i] = (struct weir__collective_args){
            .in = p->in[i] + p->begin * elem,
            .numel = n * p->ranks, /* a slice of it is n */
            .ranks = p->ranks,
            .dtype = p->dtype,
            .reduce = p->reduce,
            .scatter = true,
        };
        peers[i] = room[i];
    }
    whole.peers = peers;
    own->out = p->out[0] + (p->begin - p->shift) * elem;
    if (n > 0)
        st = WEIR__ISA_PICK(weir__reduce_part_kernel)(own, &whole);
    for (int i = 1; i < p->nout && n > 0; i++)
        memcpy(p->out[i] + (p->begin - p->shift) * elem, own->out, (size_t)(n * elem));
    return st;
}

static weir_status move_part(const void *args, const weir_block *block)
{
    const struct weir__move_part *p = args;

    (void)block;
    for (int i = 0; i < p->n; i++)
        if (p->pieces[i].from != p->pieces[i].to && p->pieces[i].bytes)
            memcpy(p->pieces[i].to, p->pieces[i].from, (size_t)p->pieces[i].bytes);
    return WEIR_OK;
}

static weir_status run_moe(const struct weir__moe_part *p, const weir_block *block,
                           weir_kernel_fn kernel)
{
    static struct weir__moe ranks[WEIR__PART_RANKS]; /* one thread runs kernels */
    const void *peers[WEIR__PART_RANKS];
    weir_block whole = *block;

    for (int i = 0; i < p->ranks; i++) {
        ranks[i] = (struct weir__moe){
            .meet.rank = i,
            .x = p->x[i],
            .experts = p->experts[i],
            .tokens = p->rows[i],
            .k = p->k,
            .hidden = p->hidden,
            .nexperts = p->nexperts,
            .capacity = p->weights ? p->rows[i] : p->capacity,
            .ranks = p->ranks,
            .dtype = p->dtype,
            .wide_experts = p->wide >> i & 1,
            .weights = p->weights,
            .weight_type = p->weight_type,
        };
        peers[i] = &ranks[i];
    }
    ranks[p->rank].tokens = p->tokens;
    ranks[p->rank].out = p->out;
    ranks[p->rank].positions = p->positions;
    ranks[p->rank].counts = p->counts;
    ranks[p->rank].starts = p->starts;
    ranks[p->rank].routes = p->routes;
    whole.peers = peers;
    return kernel(&ranks[p->rank], &whole);
}

/* The text has a phase between the host's two. */
static weir_status dispatch_part(const void *args, const weir_block *block)
{
    const struct weir__moe_part *p = args;
    weir_block at = *block;
    weir_status st;

    if (block->phase == 1 || (block->phase == 2 && p->routes[p->capacity].token < 0))
        return WEIR_OK;
    at.phase = block->phase / 2;
    if ((st = run_moe(p, &at, WEIR__ISA_PICK(weir__moe_dispatch_kernel))))
        p->routes[p->capacity].token = -1;
    return st;
}

static weir_status combine_part(const void *args, const weir_block *block)
{
    return run_moe(args, block, WEIR__ISA_PICK(weir__moe_combine_kernel));
}

weir_kernel_fn fake_part(const char *text)
{
    return !strcmp(text, "reduce_part")    ? reduce_part
           : !strcmp(text, "move_part")    ? move_part
           : !strcmp(text, "moe_dispatch") ? dispatch_part
           : !strcmp(text, "moe_combine")  ? combine_part
                                           : NULL;
}

bool fake_moe_failed(struct weir__code_context *c)
{
    const char *text = weir_last_error();
    long long value, token, limit;
    int rank, owner;

    if (sscanf(text, WEIR__MOE_BAD_EXPERT_TEXT, &value, &token, &rank, &limit) == 4)
        fake_report(c, value, limit + 1, WEIR__MOE_AT(WEIR__MOE_BAD_EXPERT, rank, token));
    else if (sscanf(text, WEIR__MOE_NO_ROOM_TEXT, &rank, &value, &limit) == 3)
        fake_report(c, value, limit, WEIR__MOE_AT(WEIR__MOE_NO_ROOM, rank, 0));
    else if (sscanf(text, WEIR__MOE_BAD_POSITION_TEXT, &value, &token, &rank, &owner, &limit) == 5)
        fake_report(c, value, limit, WEIR__MOE_AT(WEIR__MOE_BAD_POSITION, owner, token));
    else
        return false;
    return true;
}
