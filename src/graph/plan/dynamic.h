/* Plans of graphs with dynamic inputs: a cache with a plan for each set of input shapes, from which
 * the least recently used plan is evicted. */
#ifndef WEIR_GRAPH_PLAN_DYNAMIC_H
#define WEIR_GRAPH_PLAN_DYNAMIC_H

#include "graph/plan/plan.h"

/* Makes plan->dynamic for plan->graph.
 * returns  errors that every run would have, whatever its sizes: operands whose views cannot be
 *          made for other sizes, options that cannot be met. */
weir_status weir__dynamic_open(weir_plan *plan, const weir_compile_options *options);
/* No run may be in progress. */
void weir__dynamic_close(weir_plan *plan);

/* weir__plan_run for a dynamic plan. Checks the inputs; the plan for the shapes checks the
 * outputs. */
weir_status weir__dynamic_run(weir_plan *plan, weir_stream *stream, weir_tensor *const *inputs,
                              size_t ninputs, weir_tensor **outputs, size_t noutputs, bool help);

/* Statistics of the plan that ran last, and of the cache. */
void weir__dynamic_stats(const weir_plan *plan, weir_plan_stats *out);
/* Lists every plan in the cache. */
void weir__dynamic_list(const weir_plan *plan, struct weir__text *text);

#endif
