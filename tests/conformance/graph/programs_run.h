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
/* As a graph; steps that a graph of open sizes cannot have are switched off. */
weir_graph *program_capture(struct program *p, weir_device *dev, weir_tensor *const *constants,
                            bool let_go);
/* By way 0 as issued, by 1 and 2 autotuned, by 2 on other streams. */
weir_plan *program_compile(weir_graph *g, uint64_t seed, int way, const char *what);
/* A run of the plan on the stream against the calls one by one. */
void program_compare(struct program *p, weir_device *dev, weir_plan *plan, weir_stream *stream,
                     weir_tensor *const *constants, int64_t open, uint64_t round, const char *what);
void program_release(weir_tensor **values, int n);

#endif
