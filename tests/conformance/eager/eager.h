/* Random eager programs on views of a few tensors of whole numbers, beside what plain C makes of
 * them. */
#ifndef TESTS_CONFORMANCE_EAGER_H
#define TESTS_CONFORMANCE_EAGER_H

#include "conformance/conformance.h"

enum { SLOTS = 7, STREAMS = 4, MOST = 9000, DIMS = 4 };

/* A tensor, and the values that it has once all that was queued is over. */
struct slot {
    weir_tensor *t;
    int ndim;
    int64_t shape[DIMS], n;
    int64_t want[MOST];
    weir_event *written;       /* after the last writer, by */
    int writer;                /* this stream; -1: ready for every stream */
    weir_event *read[STREAMS]; /* after the last reader of each stream */
    bool readers[STREAMS];
};

/* A view of a slot's tensor, and where its elements are. */
struct picked {
    weir_tensor *t;
    int slot, ndim;
    int64_t shape[DIMS], n;
    int cells[MOST];
};

struct machine {
    weir_device *dev;
    struct rng rng;
    weir_dtype type;
    weir_stream *streams[STREAMS];
    int at;                  /* the current one */
    bool autosync;           /* nothing is ordered by the program */
    struct pending *pending; /* what the host's memory is still used for */
    struct slot slots[SLOTS];
};

/* ---- views.c ---- */

/* Any view of the slot; at most `ndim` dims. */
void pick_any(struct machine *m, int slot, int ndim, struct picked *out);
/* One of this shape, of any slot that is large enough, or that broadcasts to it; false if chance
 * finds none. */
bool pick_shape(struct machine *m, int ndim, const int64_t *shape, bool broadcast,
                struct picked *out);
void picked_free(struct picked *p);
/* No element twice. */
bool is_plain(const struct picked *p);
/* The element of p for element i of a tensor of the shape that p broadcasts to. */
int broadcast_cell(const struct picked *p, int ndim, const int64_t *shape, int64_t i);
/* Whether they have elements in common. */
bool share(const struct picked *a, const struct picked *b);
/* Whether they do but are not the same view. */
bool clash(const struct picked *a, const struct picked *b);

/* ---- values.c ---- */

int64_t wrap_value(weir_dtype type, int64_t value);
/* A value of the type. */
int64_t some_value(struct machine *m);
/* Values as bytes of the type, to be freed, and back. */
void *to_bytes(weir_dtype type, const int64_t *values, int64_t n);
int64_t from_bytes(weir_dtype type, const void *bytes, int64_t i);
/* The value that element i of the view is to have. */
int64_t value_at(const struct machine *m, const struct picked *p, int64_t i);
/* A tensor that a step made takes a slot's place. */
void put_new(struct machine *m, weir_tensor *t, const int64_t *values);
/* The same as values of i64. */
void put_cast(struct machine *m, weir_tensor *t, int64_t *values);

/* ---- steps: each a call or a few on the current stream, ordered after what they need ---- */

/* elementwise.c */
void do_unary(struct machine *m);
void do_binary(struct machine *m);
void do_binary_into(struct machine *m);
void do_scalar(struct machine *m);
void do_copy_into(struct machine *m);
void do_fill(struct machine *m);
void do_where(struct machine *m);
/* rows.c */
void do_reduce(struct machine *m);
void do_scan(struct machine *m);
void do_sort(struct machine *m);
void do_concat(struct machine *m);
void do_gather(struct machine *m);
void do_scatter(struct machine *m);
/* traffic.c */
void do_fresh(struct machine *m);
void do_read(struct machine *m);
void do_read_async(struct machine *m);
void do_write(struct machine *m);
void do_host_call(struct machine *m);
void do_callback(struct machine *m);
void do_limit(struct machine *m);
void do_new_stream(struct machine *m);
void do_rest(struct machine *m);
/* When all is over: what the host was to get, it got. */
void check_pending(struct machine *m);

/* ---- order.c ---- */

/* Before and after what the current stream does with the slot. */
void before_read(struct machine *m, int slot);
void before_write(struct machine *m, int slot);
void after_read(struct machine *m, int slot);
void after_write(struct machine *m, int slot);
/* The host wrote it, for every stream. */
void after_host_write(struct machine *m, int slot);

#endif
