/* What each pass of a compile found and left, as files for people. */
#ifndef WEIR_GRAPH_PASS_STAGES_H
#define WEIR_GRAPH_PASS_STAGES_H

#include "graph/pass/compile.h"

/* Files of one compile: DIR/weir_PID_planN_KK_PASS.EXT, where KK counts from 00. The file
 * before a pass's own is what it found, its own is what it left. */
struct weir__stages {
    const char *dir; /* NULL: no files are written */
    unsigned plan, next;
};

/* Where the option, or else WEIR_GRAPH_DUMP, says; "" says nowhere. */
struct weir__stages weir__stages_of(const weir_compile_options *options);

/* One file each; nothing is done without a directory.
 * returns  WEIR_EIO naming the file. */
weir_status weir__stage_graph(struct weir__stages *s, const char *pass, const weir_graph *g);
weir_status weir__stage_compile(struct weir__stages *s, const char *pass,
                                const struct weir__compile *c);
weir_status weir__stage_text(struct weir__stages *s, const char *pass, const char *text);

#endif
