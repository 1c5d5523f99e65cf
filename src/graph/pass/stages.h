/* The input and result of each pass of a compile, as files for people. */
#ifndef WEIR_GRAPH_PASS_STAGES_H
#define WEIR_GRAPH_PASS_STAGES_H

#include "graph/pass/compile.h"

/* Files of one compile: DIR/weir_PID_planN_KK_PASS.EXT, where KK counts from 00. A pass writes its
 * result to its own file; the file before that is its input. */
struct weir__stages {
    const char *dir; /* NULL: no files are written */
    unsigned plan, next;
};

/* The directory from the option, or else from WEIR_GRAPH_DUMP; "" means none. */
struct weir__stages weir__stages_of(const weir_compile_options *options);

/* Each writes one file; without a directory it does nothing.
 * returns  WEIR_EIO naming the file. */
weir_status weir__stage_graph(struct weir__stages *s, const char *pass, const weir_graph *g);
weir_status weir__stage_compile(struct weir__stages *s, const char *pass,
                                const struct weir__compile *c);
weir_status weir__stage_text(struct weir__stages *s, const char *pass, const char *text);

#endif
