/* The memory of a call that peers in other processes, and collective libraries, read. */
#include "ops/collective/collective.h"

/* In rounds: peers first read the inputs to reduce their slices, then the reduced slices, so that
 * no rank reads every input as a whole. In place, nothing is overwritten before it has been
 * read. */
static int show_rounds(const struct weir__collective_args *a, struct weir__code_shown *shown)
{
    struct weir__range slice = weir__reduce_slice(a, a->meet.rank);
    int64_t elem = (int64_t)weir_dtype_size((weir_dtype)a->dtype);

    shown[0] = (struct weir__code_shown){.offset = offsetof(struct weir__collective_args, in),
                                         .bytes = a->numel * elem};
    shown[1] = (struct weir__code_shown){.offset = offsetof(struct weir__collective_args, reduced),
                                         .bytes = weir__max(slice.end - slice.begin, 0) * elem,
                                         .made = true};
    return 2;
}

/* The input that peers in other processes read. An in-place reduction overwrites bytes that peers
 * have not read yet (`changes`); other in-place calls do not write bytes that peers read. */
int weir__collective_show(const void *args, struct weir__code_shown *shown)
{
    const struct weir__collective_args *a = args;
    int64_t bytes = a->numel * (int64_t)weir_dtype_size((weir_dtype)a->dtype);
    bool overlaps = a->in < a->out + bytes && a->out < a->in + bytes;

    if (weir__reduces_in_rounds(a))
        return show_rounds(a, shown);
    if (a->move == WEIR__MOVE_RECEIVE ||
        (a->move == WEIR__MOVE_BROADCAST && a->peer != a->meet.rank))
        return 0;
    shown[0] = (struct weir__code_shown){.offset = offsetof(struct weir__collective_args, in),
                                         .bytes = bytes,
                                         .changes = overlaps && *a->meet.offer.reduce};
    return 1;
}

/* The bytes of a peer's input that this rank reads: for an all-reduce everything, or the wanted
 * part, or in rounds this rank's slice; for other calls what this rank receives. */
void weir__collective_want(const void *reader, const void *shower, int64_t *begin, int64_t *bytes)
{
    const struct weir__collective_args *a = reader, *peer = shower;
    struct weir__piece piece;

    if (a->part) {
        *begin = a->first * (int64_t)weir_dtype_size((weir_dtype)a->dtype);
        *bytes = a->count * (int64_t)weir_dtype_size((weir_dtype)a->dtype);
        return;
    }
    if (weir__reduces_in_rounds(a)) {
        struct weir__range slice = weir__reduce_slice(a, a->meet.rank);
        int64_t elem = (int64_t)weir_dtype_size((weir_dtype)a->dtype);

        *begin = slice.begin * elem;
        *bytes = weir__max(slice.end - slice.begin, 0) * elem;
        return;
    }
    if (*a->meet.offer.reduce) {
        *bytes /= a->scatter ? a->ranks : 1;
        *begin = a->scatter ? *bytes * a->meet.rank : 0;
        return;
    }
    piece = weir__move_piece(a, peer, peer->meet.rank);
    *begin = piece.bytes ? (int64_t)((uintptr_t)piece.from - (uintptr_t)peer->in) : 0;
    *bytes = piece.bytes;
}

void weir__collective_aim(void *args, const void *in, void *out)
{
    struct weir__collective_args *a = args;

    a->in = in;
    a->out = out;
}

bool weir__collective_spell(const void *args, struct weir__verb *v)
{
    const struct weir__collective_args *a = args;
    static const enum weir__verb_kind kinds[] = {
        [WEIR__MOVE_GATHER] = WEIR__VERB_ALL_GATHER, [WEIR__MOVE_BROADCAST] = WEIR__VERB_BROADCAST,
        [WEIR__MOVE_EXCHANGE] = WEIR__VERB_EXCHANGE, [WEIR__MOVE_COUNTS] = WEIR__VERB_EXCHANGE,
        [WEIR__MOVE_RECEIVE] = WEIR__VERB_RECV,      [WEIR__MOVE_NONE] = WEIR__VERB_SEND,
    };

    *v = (struct weir__verb){
        .kind = kinds[a->move],
        .in = a->in,
        .out = a->out,
        .numel = a->numel,
        .bytes = a->numel * (int64_t)weir_dtype_size((weir_dtype)a->dtype),
        .dtype = a->dtype,
        .reduce = a->reduce,
        .root = a->peer,
    };
    if (*a->meet.offer.reduce)
        v->kind = a->scatter ? WEIR__VERB_REDUCE_SCATTER : WEIR__VERB_ALL_REDUCE;
    else if (a->meet.offer.ndim < 0)
        v->kind = WEIR__VERB_BARRIER;
    if (a->move == WEIR__MOVE_COUNTS) {
        v->row = a->row;
        v->send = a->counts;
        v->recv = a->counts + a->ranks;
    }
    return true;
}
