/* A graph file as records: nodes with their inputs and attributes, in file order.
 * Attribute values stay text until somebody asks for them (pbtxt_attr.h). */
#ifndef WEIR_GRAPH_FILE_PBTXT_FILE_H
#define WEIR_GRAPH_FILE_PBTXT_FILE_H

#include "graph/file/pbtxt_read.h"

#define WEIR__PB_MAX_NAME 4096 /* bytes of a name, label or key */

enum weir__pb_ref_kind {
    WEIR__PB_DATA,    /* "name" or "name:1" */
    WEIR__PB_CONTROL, /* "^name" */
    WEIR__PB_INTO,    /* of the attribute _into: an operand that an output is written to */
    WEIR__PB_ABSENT,  /* "": an optional input that is not there */
};

struct weir__pb_ref {
    enum weir__pb_ref_kind kind;
    const char *name; /* without ^ and index */
    int index;
    int node; /* what it names: pbtxt_order.c */
    size_t at;
};

struct weir__pb_attr {
    const char *key;
    uint32_t begin, end; /* what is between the braces of its value */
};

/* Strings of a graph file come again and again: keys, operators, labels. */
enum { WEIR__PB_WORDS = 256 };

struct weir__pb_node {
    const char *name, *op;
    size_t at; /* of its brace */
    int refs, nrefs;
    int attrs, nattrs;
};

struct weir__pb_file {
    struct weir__pb_text text;
    struct weir__pb_node *nodes;
    int nnodes, cap_nodes;
    struct weir__pb_ref *refs;
    int nrefs, cap_refs;
    struct weir__pb_attr *attrs;
    int nattrs, cap_attrs;
    struct weir__pb_chunk *strings;     /* what the records point to, */
    struct weir__pb_chunk *ref_strings; /* and references until it is known what they name */
    const char *words[WEIR__PB_WORDS];  /* of these, some that came before, by hash */
};

/* Reads the whole text, which must stay. On an error nothing is held.
 * returns  WEIR_EPARSE with the place, or for a text of 4 GiB or more. */
weir_status weir__pb_file_parse(struct weir__pb_file *f, const char *where, const char *data,
                                size_t size);
/* The same of a source, which must stay open. */
weir_status weir__pb_file_parse_source(struct weir__pb_file *f, const char *where,
                                       struct weir__pb_source *source);
void weir__pb_file_fini(struct weir__pb_file *f);

/* Fails at the node, with its name in the message. */
#define weir__pb_fail_node(f, status, n, format, ...) \
    weir__pb_fail(&(f)->text, status, (n)->at, "node '%.80s': " format, (n)->name, __VA_ARGS__)

/* Names of nodes, and what weir__pb_file_ints made, are the caller's from now on, who frees all at
 * once. */
void weir__pb_file_hand_over(struct weir__pb_file *f, void **strings,
                             void (**free_strings)(void *));
/* A copy of n > 0 numbers that lives as long as the names do; NULL when out of memory. */
int *weir__pb_file_ints(struct weir__pb_file *f, const int *from, int n);
/* References that are resolved have the names of their nodes from now on, and no own ones, if all
 * of them are. */
void weir__pb_file_share_names(struct weir__pb_file *f);

/* The string, with a 0 at its end, for as long as the file is held.
 * returns  WEIR_EPARSE if it is no string, has a 0 inside or is too long for a name. */
weir_status weir__pb_file_string(struct weir__pb_file *f, const struct weir__pb_text *text,
                                 const struct weir__pb_event *e, const char **out);
/* The same, for one that others are likely to be equal to: they may share a copy. */
weir_status weir__pb_file_word(struct weir__pb_file *f, const struct weir__pb_text *text,
                               const struct weir__pb_event *e, const char **out);

#endif
