/* Operands of 16-bit integers: a call has them as i32. */
#ifndef WEIR_OPAPI_NARROW_H
#define WEIR_OPAPI_NARROW_H

#include "call.h"

/* The operand as i32: the same tensor however often it is asked for. */
tensor *narrow_view(struct call *c, const aclTensor *t);
/* `out` has been written: if it stands for an operand, that will be. */
void narrow_note_put(struct call *c, const tensor *out);
/* Writes what was written, unless the call has failed, and forgets all. */
void narrow_end(struct call *c);

#endif
