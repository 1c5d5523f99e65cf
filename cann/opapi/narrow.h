/* Operands of 16-bit integers, with which a call computes as i32. */
#ifndef WEIR_OPAPI_NARROW_H
#define WEIR_OPAPI_NARROW_H

#include "call.h"

/* Returns the operand as i32; every call returns the same tensor. */
tensor *narrow_view(struct call *c, const aclTensor *t);
/* Notes that `out` was written, so that narrow_end writes its operand back, if it is one. */
void narrow_note_put(struct call *c, const tensor *out);
/* Writes the operands back, unless the call has failed, and frees the records. */
void narrow_end(struct call *c);

#endif
