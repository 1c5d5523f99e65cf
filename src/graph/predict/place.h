/* streams=auto on a modelled device: chooses streams, order and core limits that save time
 * according to the model. */
#ifndef WEIR_GRAPH_PREDICT_PLACE_H
#define WEIR_GRAPH_PREDICT_PLACE_H

#include "graph/predict/predict.h"

/* Larger graphs would take too long: they are placed by rough estimates (pass/streams_auto.c). */
#define WEIR__PLACE_NODES 20000

/* Whether weir__place is requested and possible. */
bool weir__place_wanted(const weir_graph *g, const weir_compile_options *options);

/* Replaces *g by a copy in which nodes without labels are placed for the shortest predicted time,
 * and describes that in `notes`. The plan is predicted to take no longer than *g did. The same
 * graph gives the same copy. Marks of the program stay: labels, priorities, limits, super kernels.
 * In a graph with collectives the program order stays too, since other ranks rely on it, and no
 * limit is chosen; neither is a limit chosen under a limit of the graph or of the device. Frees
 * nothing on failure.
 * threads  any, while no other thread uses *g. */
weir_status weir__place(weir_graph **g, const weir_compile_options *options,
                        struct weir__text *notes);

#endif
