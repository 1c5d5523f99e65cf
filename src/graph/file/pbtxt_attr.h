/* Attribute values: `s`, `i`, `f`, `b`, lists of them, and the text forms of them that
 * other tools put inside `s`. */
#ifndef WEIR_GRAPH_FILE_PBTXT_ATTR_H
#define WEIR_GRAPH_FILE_PBTXT_ATTR_H

#include "graph/file/pbtxt_file.h"
#include "tensor/op.h"

/* Reads the scalars of a value one by one, at any depth of messages and lists. If the value is a
 * single string that holds a text form, gives the scalars of that instead. */
struct weir__pb_value {
    struct weir__pb_file *file;
    const struct weir__pb_node *node;
    const struct weir__pb_attr *attr;
    struct weir__pb_text outer, inner; /* the file up to the value's end; the text form */
    struct weir__pb_reader reader;
    char *decoded; /* what `inner` reads */
};

/* The node's attribute of that name, or NULL. If there are several, the last one. */
const struct weir__pb_attr *weir__pb_attr_find(const struct weir__pb_file *f,
                                               const struct weir__pb_node *n, const char *key);

weir_status weir__pb_value_open(struct weir__pb_value *v, struct weir__pb_file *f,
                                const struct weir__pb_node *n, const struct weir__pb_attr *a);
/* The next scalar, or END. */
weir_status weir__pb_value_next(struct weir__pb_value *v, struct weir__pb_event *e);
void weir__pb_value_close(struct weir__pb_value *v);

/* Fails at the attribute: the message is "node 'x': attribute 'key' " and the formatted rest of the
 * sentence. */
weir_status weir__pb_value_fail(const struct weir__pb_value *v, weir_status status,
                                const char *format, ...) WEIR_PRINTF(3, 4);

/* A scalar as a type; numbers and words may be written as strings.
 * returns  WEIR_EINVAL naming the value and the expected type. */
weir_status weir__pb_to_int(const struct weir__pb_value *v, const struct weir__pb_event *e,
                            int64_t *out);
weir_status weir__pb_to_float(const struct weir__pb_value *v, const struct weir__pb_event *e,
                              double *out);
weir_status weir__pb_to_bool(const struct weir__pb_value *v, const struct weir__pb_event *e,
                             bool *out);
weir_status weir__pb_to_string(const struct weir__pb_value *v, const struct weir__pb_event *e,
                               const char **out);
/* "f32", "DT_FLOAT", "float16", ... */
weir_status weir__pb_to_dtype(const struct weir__pb_value *v, const struct weir__pb_event *e,
                              weir_dtype *out);

/* An attribute that is one scalar. Without such an attribute *out stays unchanged. */
weir_status weir__pb_attr_int(struct weir__pb_file *f, const struct weir__pb_node *n,
                              const char *key, int64_t *out);
weir_status weir__pb_attr_bool(struct weir__pb_file *f, const struct weir__pb_node *n,
                               const char *key, bool *out);
weir_status weir__pb_attr_string(struct weir__pb_file *f, const struct weir__pb_node *n,
                                 const char *key, const char **out);
/* A list of at most `max` integers; *count is -1 if there is no such attribute. */
weir_status weir__pb_attr_ints(struct weir__pb_file *f, const struct weir__pb_node *n,
                               const char *key, int64_t *out, int max, int *count);

/* Reads the operator's parameters from the attributes named like its fields; absent ones are 0.
 * `params` has op->params_size bytes. */
weir_status weir__pb_params(struct weir__pb_file *f, const struct weir__pb_node *n,
                            const struct weir__op *op, void *params);

/* Whether loading would take the string for a text form and unwrap it. */
bool weir__pb_is_text_form(const char *data, size_t size);

/* The field that counts the valid entries of the array field `of` ("ndims" for "dims"). NULL: all
 * entries are valid. */
const struct weir__op_field *weir__pb_count_field(const struct weir__op *op,
                                                  const struct weir__op_field *of);
/* Whether the field is such a count. Files do not contain counts: they follow from the array. */
bool weir__pb_is_count(const struct weir__op *op, const struct weir__op_field *field);

#endif
