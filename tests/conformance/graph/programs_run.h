/* Running random programs. */
#ifndef TESTS_CONFORMANCE_GRAPH_PROGRAMS_RUN_H
#define TESTS_CONFORMANCE_GRAPH_PROGRAMS_RUN_H

#include "conformance/graph/programs.h"

/* Calls `fn` for as many seeds as suit the device, or as the environment says. */
void each_program(weir_device *dev, unsigned often, bool open,
                  void (*fn)(weir_device *dev, uint64_t seed, bool open));
/* What the environment says of steps. */
void program_switch_off(struct program *p);
void program_show(const struct program *p);
/* The open size, and those made from it, named in the graph. */
struct sizes program_name_sizes(const struct program *p, weir_graph *g);
/* As a graph; steps that a graph of open sizes cannot have are switched off. */
weir_graph *program_capture(struct program *p, weir_device *dev, weir_tensor *const *constants,
                            bool let_go);
/* By way 0 as issued, by 1 and 2 autotuned, by 2 on other streams. */
weir_plan *program_compile(weir_graph *g, uint64_t seed, int way, const char *what);
/* A run of the plan on the stream against the calls one by one. */
void program_compare(struct program *p, weir_device *dev, weir_plan *plan, weir_stream *stream,
                     weir_tensor *const *constants, int64_t open, uint64_t round, const char *what);
/* Runs the program's steps from inputs to values: within their scopes, letting go what nothing
 * needs any more, going on after a step that fails. *failed is the last that did, or -1. */
weir_status program_run(struct program *p, weir_device *dev, const struct sizes *sizes,
                        weir_tensor **values, bool scopes, bool let_go, bool skip, int *failed);
/* Whether result i is one of the graph: constants are none. */
bool program_has_result(const struct program *p, weir_tensor *const *values, int i);
/* Value v is the same, bit for bit; all NaNs are one. */
void program_check_equal(const struct program *p, const char *what, int v, weir_tensor *want,
                         weir_tensor *got);
void program_release(weir_tensor **values, int n);

#endif
