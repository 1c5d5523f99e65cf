/* Plans of graphs with dynamic inputs: a plan for each set of input shapes that runs have
 * had, the least recently used one given up for a new one. */
#ifndef WEIR_GRAPH_PLAN_DYNAMIC_H
#define WEIR_GRAPH_PLAN_DYNAMIC_H

#include "graph/plan/plan.h"

/* Gives plan->dynamic for plan->graph.
 * returns  the error that a run would meet whatever the sizes: operands that cannot be made
 *          again for others, options that do not hold. */
weir_status weir__dynamic_open(weir_plan *plan, const weir_compile_options *options);
/* Nothing runs the plan. */
void weir__dynamic_close(weir_plan *plan);

/* weir__plan_run for such a plan. Inputs are checked here, outputs by the plan of the shapes. */
weir_status weir__dynamic_run(weir_plan *plan, weir_stream *stream, weir_tensor *const *inputs,
                              size_t ninputs, weir_tensor **outputs, size_t noutputs, bool help);

/* Of the plan that ran last, and of the cache. */
void weir__dynamic_stats(const weir_plan *plan, weir_plan_stats *out);
/* Of every plan in the cache. */
void weir__dynamic_list(const weir_plan *plan, struct weir__text *text);

#endif
