/* The table of operators. What a row is: device/op.h.
 *
 * Adding an operator: write `infer`, `cost` and `prepare`, put them in a
 * `const struct weir__op weir__op_NAME`, list NAME in ops/call/registry.h, and give it a
 * public function that calls weir__op_run.
 */
#ifndef WEIR_TENSOR_OP_H
#define WEIR_TENSOR_OP_H

#include "device/device.h"
#include "device/op.h"
#include "tensor/view.h"

/* Sets the cost of the call's kernel: roughly for devices that run it, in full for those that model
 * it. */
void weir__kernel_set_cost(struct weir__kernel *k, const struct weir__call *call,
                           const struct weir__work *work);

/* Replaces cost->flops by the result of weir__model_flops; `first` is the first input or NULL. */
void weir__cost_scale(struct weir__cost *cost, const struct weir__model *model, weir_engine engine,
                      const struct weir__view *first);

/* The table. */
const struct weir__op *weir__op_find(const char *name);
size_t weir__op_count(void);
const struct weir__op *weir__op_at(size_t i);

#endif
