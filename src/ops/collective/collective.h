/* Shared by all collective operators. */
#ifndef WEIR_OPS_COLLECTIVE_COLLECTIVE_H
#define WEIR_OPS_COLLECTIVE_COLLECTIVE_H

#include <string.h>

#include "ops/host/move/collective.h"
#include "ops/op.h"

/* Parameters of every collective; each row names the fields that it uses. They are copied for every
 * call, so fields of a single row are in a struct of its own behind these. */
struct weir__collective_params {
    uint64_t rank; /* id of the rank it was made with; 0 if it comes from a file */
    char group[WEIR__GROUP_NAME];
    char mode[8];   /* "vector" or "sdma"; "" is vector */
    char reduce[8]; /* sum, max, min, mean, prod */
    int64_t ranks;
    int64_t root, to, from;
    int64_t reduced_for; /* 1 + the only rank that gets the reduction; 0: all ranks */
    int64_t experts, capacity;
    /* For a reduction outside graphs between processes: this rank wants only `rows` rows of the
     * result, from `first` on. */
    int64_t part; /* 0 or 1; not a bool, because calls are compared byte by byte (again.c), so there
                   * must be no padding */
    int64_t first, rows; /* for AllToAllTable: rows of the result */
};

/* AllToAllCounts: rows for and from each rank. They are part of the call's arguments, whose size
 * limits their number. */
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
/* The fields of every row. */
#define WEIR__COLLECTIVE_FIELDS                              \
    WEIR__COLLECTIVE_FIELD(group, STRING, WEIR__GROUP_NAME), \
        WEIR__COLLECTIVE_FIELD(ranks, INT, 1), WEIR__COLLECTIVE_FIELD(mode, STRING, 8)

/* Parameters of a call by this rank. */
static inline struct weir__collective_params weir__collective_make_params(const weir_rank *rank)
{
    struct weir__collective_params p = {
        .rank = rank->id, .ranks = rank->group->nranks, .root = -1, .to = -1, .from = -1};

    _Static_assert(sizeof p.group == sizeof rank->group->name, "names of groups fit");
    memcpy(p.group, rank->group->name, sizeof p.group);
    memcpy(p.mode, rank->group->mode == WEIR_COMM_SDMA ? "sdma\0\0" : "vector", 7);
    return p;
}

/* Whether a parameter of 8 bytes is this word. Both are padded with zeros, except parameters given
 * by users. */
static inline bool weir__word_is(const char param[8], const char word[8])
{
    return !memcmp(param, word, 8) || !strcmp(param, word);
}

/* The `member` of rows that meet the whole group. */
void weir__collective_member(const void *params, struct weir__member *member);
/* Checks ranks, mode and that the inputs are contiguous.
 * returns  WEIR_EINVAL, WEIR_ERANGE or WEIR_ESHAPE naming the operator. */
weir_status weir__collective_check(const struct weir__call *call);
/* Sets kernel, engine and blocks of a part that moves `bytes` and can be cut into at most
 * `units`. */
void weir__collective_work(const struct weir__call *call, struct weir__work *work,
                           weir_kernel_fn fn, size_t args_size, int64_t bytes, int64_t units);
/* Fills zeroed memory with an offer of the input's type and shape. */
void weir__collective_offer(const struct weir__call *call, struct weir__offer *offer);

/* ---- collective_shown.c: for struct weir__meet ---- */

int weir__collective_show(const void *args, struct weir__code_shown *shown);
void weir__collective_want(const void *reader, const void *shower, int64_t *begin, int64_t *bytes);
void weir__collective_aim(void *args, const void *in, void *out);
bool weir__collective_spell(const void *args, struct weir__verb *verb);

/* ---- collective_calls.c ---- */

/* Whether ranks may get different parts of the result of a call with this tensor. */
bool weir__collective_has_parts(const weir_rank *rank, const weir_tensor *x);
/* Reduces, but returns only these rows. All ranks call it, each with its own rows. `root`: as
 * reduced_for; -1 for none. */
weir_status weir__reduce_rows(weir_rank *rank, weir_tensor *x, weir_reduce how, int root,
                              int64_t first, int64_t rows, weir_tensor **out);
/* ---- collective.c ---- */

/* Runs the operator after making its inputs contiguous. `params` are the row's. */
weir_status weir__collective_run(const struct weir__op *op, const void *params,
                                 weir_tensor *const *in, int nin, weir_tensor *into,
                                 weir_tensor **out);

/* ---- collective_many.c: for more than WEIR_MAX_COUNTED_RANKS ranks ---- */

/* `sum` is the sum of the counts. */
weir_status weir__all_gather_many(weir_rank *rank, weir_tensor *x, const int64_t *counts,
                                  int64_t sum, weir_tensor **out);
/* For ranks that are processes: exchanges messages. */
weir_status weir__exchange_many(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                const int64_t *recv, weir_tensor *into, weir_tensor **out);

/* ---- collective_table.c: the same for ranks of one process ---- */

weir_status weir__exchange_by_table(weir_rank *rank, weir_tensor *x, const int64_t *send,
                                    const int64_t *recv, weir_tensor *into, weir_tensor **out);

#endif
