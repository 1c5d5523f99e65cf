/* The conformance suite: what every device must do, through the public API alone.
 *
 * A case gets a device opened from $WEIR_DEVICE (--device SPEC) and must leave it
 * with nothing held: closing it is part of the case. What a device cannot do is
 * skipped with a reason, by feature (need) or by the table in support.c.
 */
#ifndef TESTS_CONFORMANCE_H
#define TESTS_CONFORMANCE_H

#include "harness/test.h"
#include "weir/weir.h"

#define countof(a) (sizeof(a) / sizeof((a)[0]))

#define CONFORMANCE(suite, name)                           \
    static void suite##_##name##_case(weir_device *dev);   \
    TEST(suite, name)                                      \
    {                                                      \
        run_case(#suite "." #name, suite##_##name##_case); \
    }                                                      \
    static void suite##_##name##_case(weir_device *dev)

void run_case(const char *name, void (*fn)(weir_device *dev));

/* The same device once more, closed by the caller. */
weir_device *open_another(void);
/* How often to do what is done `n` times on a device that is neither slow nor sanitized. */
unsigned repeats(weir_device *dev, unsigned n);
/* The fake GPU, which compiles a kernel source for every type and layout. */
bool is_fake(weir_device *dev);

/* Skips the case unless the device has all of these WEIR_FEATURE_*. */
void need(weir_device *dev, unsigned features);
/* Host kernels, which a case can hold up by a gate. */
void need_gates(weir_device *dev);

weir_stream *new_stream(weir_device *dev);
/* Everything queued on `later` from now on runs after what is queued on `first`. */
void order(weir_stream *first, weir_stream *later);

/* ---- chance: the same numbers every time ---- */

struct rng {
    uint64_t state;
};

/* Seeds differ by name and by `salt`; $CONFORMANCE_SEED moves them all. */
struct rng rng_make(const char *name, uint64_t salt);
uint64_t rng_next(struct rng *rng);
int64_t rng_int(struct rng *rng, int64_t low, int64_t high); /* both may come */
double rng_real(struct rng *rng, double low, double high);
bool rng_chance(struct rng *rng, int percent);

/* ---- host arrays: values in row-major order, as doubles ---- */

struct array {
    weir_dtype dtype;
    int ndim;
    int64_t shape[WEIR_MAX_DIMS];
    double *at;    /* NULL: no such array */
    double *reach; /* what rounding errors scale with where that is not |at|; or NULL */
};

/* Zeros; `dims` may be NULL for a scalar. */
void array_init(struct array *a, weir_dtype dtype, int ndim, const int64_t *dims);
void array_free(struct array *a);
int64_t array_numel(const struct array *a);
/* The place of a multi-index of `ndim` dims, broadcast as in NumPy. */
int64_t array_place(const struct array *a, int ndim, const int64_t *index);
/* Steps a multi-index through a shape in row-major order; false at the end. */
bool step_index(int ndim, const int64_t *shape, int64_t *index);
bool same_shape(const struct array *a, const struct array *b);

/* The nearest value of the type (ties to even; integers wrap). */
double round_to(weir_dtype dtype, double value);
/* Elements in the type's own bytes. */
void encode(weir_dtype dtype, const double *from, int64_t n, void *to);
void decode(weir_dtype dtype, const void *from, int64_t n, double *to);

/* ---- arrays on the device ---- */

enum layout {
    LAYOUT_PLAIN,
    LAYOUT_SLICED,
    LAYOUT_TURNED,
    LAYOUT_BOTH,
    LAYOUT_EXPANDED, /* needs values that repeat along array_repeat's dim */
    LAYOUT_COUNT
};

/* A view of that layout in a larger tensor, its bytes unspecified. The whole of it goes to *base
 * unless that is NULL. */
weir_tensor *make_view(weir_stream *stream, weir_dtype dtype, int ndim, const int64_t *shape,
                       enum layout layout, struct rng *rng, weir_tensor **base);
/* The array on the device. Expanded layouts fall back to sliced ones where nothing repeats. */
weir_tensor *upload(weir_stream *stream, const struct array *a, enum layout layout,
                    struct rng *rng);
/* Reads what the current stream leaves. Free both. */
void *read_bytes(weir_tensor *t, size_t *size);
/* Both have the same bytes. */
void check_same(weir_tensor *want, weir_tensor *got);
void download(weir_tensor *t, struct array *out);

#endif
