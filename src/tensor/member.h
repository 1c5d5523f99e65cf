/* Finds the rank and the channel of a collective from its row's `member`. */
#ifndef WEIR_TENSOR_MEMBER_H
#define WEIR_TENSOR_MEMBER_H

#include "tensor/op.h"

/* The rank the operator runs as, with one use of its group added: the rank it was made with, or the
 * one of `ranks` whose group has the name, or the first if it names no group. `what` names the
 * operator in messages.
 * returns  WEIR_ESTATE if the group is destroyed or broken; WEIR_EINVAL if none of the ranks
 *          matches or the group has another number of ranks. */
weir_status weir__member_rank(const struct weir__member *member, const char *what,
                              weir_rank *const *ranks, size_t nranks, weir_rank **out);
/* returns  WEIR_ERANGE for a peer that is not another rank of the group. */
weir_status weir__member_channel(const struct weir__member *member, const char *what,
                                 const weir_rank *rank, struct weir__channel **out);

#endif
