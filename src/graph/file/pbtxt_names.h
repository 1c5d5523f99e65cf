/* Names of a dump: every node of the file needs a unique one. */
#ifndef WEIR_GRAPH_FILE_PBTXT_NAMES_H
#define WEIR_GRAPH_FILE_PBTXT_NAMES_H

#include "graph/build/graph.h"

struct weir__pb_names {
    char **slots; /* set of all names in use; owns them */
    size_t mask, count;
    char **nodes;  /* by node of the graph */
    char **values; /* by value: inputs and constants; NULL for others */
    int *index;    /* by value of a node: the index of that output */
    char *outputs; /* name of the node that lists the results */
    bool failed;   /* out of memory: some names are NULL */
};

void weir__pb_names_init(struct weir__pb_names *names, const weir_graph *g);
void weir__pb_names_fini(struct weir__pb_names *names);
/* The name, or a similar one that is not in use; owned by the set. NULL when out of memory. */
char *weir__pb_names_add(struct weir__pb_names *names, const char *name);

#endif
