/* Names of a dump: every node of the file needs one of its own. */
#ifndef WEIR_GRAPH_FILE_PBTXT_NAMES_H
#define WEIR_GRAPH_FILE_PBTXT_NAMES_H

#include "graph/build/graph.h"

struct weir__pb_names {
    char **slots; /* a set of all names given out, which it owns */
    size_t mask, count;
    char **nodes;  /* by node of the graph */
    char **values; /* by value: inputs and constants; NULL for others */
    int *index;    /* by value of a node: which of its outputs it is */
    char *outputs; /* of the node that names the results */
    bool failed;   /* out of memory: some names are NULL */
};

void weir__pb_names_init(struct weir__pb_names *names, const weir_graph *g);
void weir__pb_names_fini(struct weir__pb_names *names);
/* The name, or one like it that is not in use; owned by the set. NULL when out of memory. */
char *weir__pb_names_add(struct weir__pb_names *names, const char *name);

#endif
