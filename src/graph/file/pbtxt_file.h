/* A graph file as records: nodes with their inputs and attributes, in file order.
 * Attribute values stay text until they are read (pbtxt_attr.h). */
#ifndef WEIR_GRAPH_FILE_PBTXT_FILE_H
#define WEIR_GRAPH_FILE_PBTXT_FILE_H

#include "graph/file/pbtxt_read.h"

#define WEIR__PB_MAX_NAME 4096 /* bytes of a name, label or key */

enum weir__pb_ref_kind {
    WEIR__PB_DATA,    /* "name" or "name:1" */
    WEIR__PB_CONTROL, /* "^name" */
    WEIR__PB_INTO,    /* for the attribute _into: an operand that an output is written to */
    WEIR__PB_ABSENT,  /* "": an absent optional input */
};

struct weir__pb_ref {
    enum weir__pb_ref_kind kind;
    const char *name; /* without ^ and index */
    int index;
    int node; /* the node it names: pbtxt_order.c */
    size_t at;
};

struct weir__pb_attr {
    const char *key;
    uint32_t begin, end; /* range between the braces of its value */
};

/* Strings that repeat in a graph file (keys, operators, labels) are kept once. */
enum { WEIR__PB_WORDS = 256 };

struct weir__pb_node {
    const char *name, *op;
    size_t at; /* position of its opening brace */
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
    struct weir__pb_chunk *strings;     /* strings of the records */
    struct weir__pb_chunk *ref_strings; /* strings of references, until the references are
                                         * resolved */
    const char *words[WEIR__PB_WORDS];  /* some earlier strings of `strings`, by hash */
};

/* Reads the whole text, which must outlive `f`. On an error nothing is allocated.
 * returns  WEIR_EPARSE with the place, or for a text of 4 GiB or more. */
weir_status weir__pb_file_parse(struct weir__pb_file *f, const char *where, const char *data,
                                size_t size);
/* The same from a source, which must stay open. */
weir_status weir__pb_file_parse_source(struct weir__pb_file *f, const char *where,
                                       struct weir__pb_source *source);
void weir__pb_file_fini(struct weir__pb_file *f);

/* Fails at the node, with its name in the message. */
#define weir__pb_fail_node(f, status, n, format, ...) \
    weir__pb_fail(&(f)->text, status, (n)->at, "node '%.80s': " format, (n)->name, __VA_ARGS__)

/* Gives the caller the names of nodes and the arrays of weir__pb_file_ints. The caller frees them
 * all at once with *free_strings. */
void weir__pb_file_hand_over(struct weir__pb_file *f, void **strings,
                             void (**free_strings)(void *));
/* A copy of n > 0 numbers that lives as long as the names do; NULL when out of memory. */
int *weir__pb_file_ints(struct weir__pb_file *f, const int *from, int n);
/* Points resolved references to the names of their nodes. If all are resolved, frees the
 * references' own strings. */
void weir__pb_file_share_names(struct weir__pb_file *f);

/* Copies the string, with a 0 at its end. The copy lives as long as `f`.
 * returns  WEIR_EPARSE if it is not a string, contains a 0 or is too long for a name. */
weir_status weir__pb_file_string(struct weir__pb_file *f, const struct weir__pb_text *text,
                                 const struct weir__pb_event *e, const char **out);
/* The same for strings that are likely to repeat: equal strings may share a copy. */
weir_status weir__pb_file_word(struct weir__pb_file *f, const struct weir__pb_text *text,
                               const struct weir__pb_event *e, const char **out);

#endif
