/* What collective operators share. */
#ifndef WEIR_OPS_COLLECTIVE_COLLECTIVE_H
#define WEIR_OPS_COLLECTIVE_COLLECTIVE_H

#include <string.h>

#include "ops/host/move/collective.h"
#include "ops/op.h"

/* Parameters of every collective; each row names the fields it has. They are made and copied
 * for every call: what only one row has goes behind them in a struct of its own. */
struct weir__collective_params {
    uint64_t rank; /* id of the rank it was made with; 0 if it comes from a file */
    char group[WEIR__GROUP_NAME];
    char mode[8];   /* "vector" or "sdma"; "" is vector */
    char reduce[8]; /* sum, max, min, mean, prod */
    int64_t ranks;
    int64_t root, to, from;
    int64_t reduced_for; /* 1 + the rank that a reduction is for; 0: for all */
    int64_t experts, capacity;
    /* Of a reduction outside graphs, by ranks that are processes: this rank wants `rows` rows of
     * the result, from `first` on. */
    int64_t part; /* 0 or 1: calls are compared byte by byte (again.c), so there is no padding */
    int64_t first, rows; /* of AllToAllTable: rows of the result */
};

/* Of AllToAllCounts: rows for and from each rank. They go with the arguments of the call, which
 * have room for so many. */
struct weir__counts_params {
    struct weir__collective_params of_all;
    int64_t nsend, send[WEIR_MAX_COUNTED_RANKS];
    int64_t nrecv, recv[WEIR_MAX_COUNTED_RANKS];
};

enum { WEIR__REDUCES = 5 };
extern const char weir__reduce_names[WEIR__REDUCES][8]; /* by weir_reduce */

#define WEIR__COLLECTIVE_FIELD(name, kind, count)                                        \
    {                                                                                    \
#name, WEIR__FIELD_##kind, offsetof(struct weir__collective_params, name), count \
    }
/* Those of every row. */
#define WEIR__COLLECTIVE_FIELDS                              \
    WEIR__COLLECTIVE_FIELD(group, STRING, WEIR__GROUP_NAME), \
        WEIR__COLLECTIVE_FIELD(ranks, INT, 1), WEIR__COLLECTIVE_FIELD(mode, STRING, 8)

/* Parameters of a call by that rank. */
static inline struct weir__collective_params weir__collective_make_params(const weir_rank *rank)
{
    struct weir__collective_params p = {
        .rank = rank->id, .ranks = rank->group->nranks, .root = -1, .to = -1, .from = -1};

    _Static_assert(sizeof p.group == sizeof rank->group->name, "names of groups fit");
    memcpy(p.group, rank->group->name, sizeof p.group);
    memcpy(p.mode, rank->group->mode == WEIR_COMM_SDMA ? "sdma\0\0" : "vector", 7);
    return p;
}

/* Whether a parameter of 8 bytes is that word. Both are padded with zeros, but for parameters that
 * come from elsewhere. */
static inline bool weir__word_is(const char param[8], const char word[8])
{
    return !memcmp(param, word, 8) || !strcmp(param, word);
}

/* For the rows: the rendezvous of the whole group. */
void weir__collective_member(const void *params, struct weir__member *member);
/* ranks, mode and, where `contiguous` inputs are wanted, those.
 * returns  WEIR_EINVAL, WEIR_ERANGE or WEIR_ESHAPE naming the operator. */
weir_status weir__collective_check(const struct weir__call *call);
/* Kernel, engine and blocks of a part that moves `bytes`, cut into at most `units`. */
void weir__collective_work(const struct weir__call *call, struct weir__work *work,
                           weir_kernel_fn fn, size_t args_size, int64_t bytes, int64_t units);
/* An offer of the input's type and shape, into zeroed memory. */
void weir__collective_offer(const struct weir__call *call, struct weir__offer *offer);

/* ---- collective_shown.c: for struct weir__meet ---- */

int weir__collective_show(const void *args, struct weir__code_shown *shown);
void weir__collective_want(const void *reader, const void *shower, int64_t *begin, int64_t *bytes);
void weir__collective_aim(void *args, const void *in, void *out);
bool weir__collective_spell(const void *args, struct weir__verb *verb);

/* ---- collective_calls.c ---- */

/* Whether calls with this tensor may want a part of the result alone. */
bool weir__collective_has_parts(const weir_rank *rank, const weir_tensor *x);
/* Those rows of the reduction; all ranks call it, each with its own rows. `root`: as reduced_for,
 * -1 for none. */
weir_status weir__reduce_rows(weir_rank *rank, weir_tensor *x, weir_reduce how, int root,
                              int64_t first, int64_t rows, weir_tensor **out);
/* ---- collective.c ---- */

/* Runs the operator on inputs that are made contiguous first. `params` are the row's. */
weir_status weir__collective_run(const struct weir__op *op, const void *params,
                                 weir_tensor *const *in, int nin, weir_tensor *into,
                                 weir_tensor **out);

/* ---- collective_many.c: of more than WEIR_MAX_COUNTED_RANKS ---- */

/* `sum` is that of the counts. */
weir_status weir__all_gather_many(weir_rank *rank, weir_tensor *x, const int64_t *counts,
                                  int64_t sum, weir_tensor **out);
/* Of ranks that are processes, by messages. */
weir_status weir__exchange_many(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                const int64_t *recv, weir_tensor *into, weir_tensor **out);

/* ---- collective_table.c: the same of ranks of one process ---- */

weir_status weir__exchange_by_table(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                    const int64_t *recv, weir_tensor *into, weir_tensor **out);

#endif
