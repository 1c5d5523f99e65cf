/* streams=auto on a modelled device: streams, order and core limits that the model says pay. */
#ifndef WEIR_GRAPH_PREDICT_PLACE_H
#define WEIR_GRAPH_PREDICT_PLACE_H

#include "graph/predict/predict.h"

/* Graphs of more nodes would take too long: the placement by rough estimates has those. */
#define WEIR__PLACE_NODES 20000

/* Whether weir__place is asked for, and can be. */
bool weir__place_wanted(const weir_graph *g, const weir_compile_options *options);

/* Replaces *g by a copy whose nodes without labels are where the plan takes least, and says so in
 * `notes`. The plan is predicted to take no more than *g as it was. The same graph gives the same
 * copy. Marks of the program stay: labels, priorities, limits, super kernels. Where collectives
 * are, the order of the program stays too, since other ranks count on it, and no limit is chosen;
 * nor is one under a limit of the graph or of the device. Frees nothing on failure.
 * threads  any, with *g the caller's alone. */
weir_status weir__place(weir_graph **g, const weir_compile_options *options,
                        struct weir__text *notes);

#endif
