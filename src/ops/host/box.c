/* Packs and unpacks boxes of strided operands. */
#include "ops/host/box.h"

#include <string.h>

/* Rows of at least this many bytes are copied by memcpy. */
enum { LONG_ROW = 64 };

void WEIR__ISA_NAME(weir__box_init)(struct weir__box *box, int ndim, const int64_t *shape,
                                    const int64_t *stride)
{
    int n = 0;

    box->numel = 1;
    for (int d = 0; d < ndim; d++) {
        box->numel *= shape[d];
        if (shape[d] == 1)
            continue;
        if (n > 0 && box->stride[n - 1] == stride[d] * shape[d]) {
            box->shape[n - 1] *= shape[d];
            box->stride[n - 1] = stride[d];
        } else {
            box->shape[n] = shape[d];
            box->stride[n++] = stride[d];
        }
    }
    if (n == 0) {
        box->shape[0] = 1;
        box->stride[n++] = 1;
    }
    box->ndim = n;
}

/* Repeats the first `have` bytes until `all` bytes are filled. */
static void repeat(char *dst, size_t have, size_t all)
{
    while (have < all) {
        size_t more = have < all - have ? have : all - have;

        memcpy(dst + have, dst, more);
        have += more;
    }
}

/* d[r * to + c] = s[c * from + r]. Reads along s, so that each cache line of s is fully used when
 * it is loaded. The destination stays in the first-level cache. */
#define TURN(T)                                                                             \
    static void turn_part_##T(T *restrict d, int64_t to, const T *restrict s, int64_t from, \
                              int64_t row, int64_t rows, int64_t col, int64_t cols)         \
    {                                                                                       \
        for (int64_t c = col; c < cols; c++)                                                \
            for (int64_t r = row; r < rows; r++)                                            \
                d[r * to + c] = s[c * from + r];                                            \
    }
TURN(uint8_t)
TURN(uint16_t)
TURN(uint32_t)
TURN(uint64_t)

typedef uint32_t vec4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint16_t vec8 __attribute__((vector_size(16), aligned(2), may_alias));

/* Transposes squares of four by four, and of eight by eight, in registers. */
static inline void turn_square_uint32_t(uint32_t *d, int64_t to, const uint32_t *s, int64_t from)
{
    vec4 x[4], y[4];

    for (int i = 0; i < 4; i++)
        x[i] = *(const vec4 *)(s + i * from);
    for (int i = 0; i < 2; i++) {
        y[i] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 0, 4, 1, 5);
        y[i + 2] = __builtin_shufflevector(x[2 * i], x[2 * i + 1], 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        *(vec4 *)(d + 2 * i * to) = __builtin_shufflevector(y[2 * i], y[2 * i + 1], 0, 1, 4, 5);
        *(vec4 *)(d + (2 * i + 1) * to) =
            __builtin_shufflevector(y[2 * i], y[2 * i + 1], 2, 3, 6, 7);
    }
}

static inline void turn_square_uint16_t(uint16_t *d, int64_t to, const uint16_t *s, int64_t from)
{
    vec8 x[8], y[8];

    for (int i = 0; i < 8; i++)
        x[i] = *(const vec8 *)(s + i * from);
    /* Three rounds: interleave line k of the first half with line k of the second. */
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 4; i++) {
            y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(x, y, sizeof x);
    }
    for (int i = 0; i < 8; i++)
        *(vec8 *)(d + i * to) = x[i];
}

#define TURN_SQUARES(T, size)                                                             \
    static void turn_##T(T *restrict d, int64_t to, const T *restrict s, int64_t from,    \
                         int64_t rows, int64_t cols)                                      \
    {                                                                                     \
        int64_t whole_rows = rows / (size) * (size), whole_cols = cols / (size) * (size); \
                                                                                          \
        for (int64_t c = 0; c < whole_cols; c += (size))                                  \
            for (int64_t r = 0; r < whole_rows; r += (size))                              \
                turn_square_##T(d + r * to + c, to, s + c * from + r, from);              \
        turn_part_##T(d, to, s, from, whole_rows, rows, 0, whole_cols);                   \
        turn_part_##T(d, to, s, from, 0, rows, whole_cols, cols);                         \
    }
#define TURN_ELEMENTS(T)                                                               \
    static void turn_##T(T *restrict d, int64_t to, const T *restrict s, int64_t from, \
                         int64_t rows, int64_t cols)                                   \
    {                                                                                  \
        turn_part_##T(d, to, s, from, 0, rows, 0, cols);                               \
    }
TURN_ELEMENTS(uint8_t)
TURN_SQUARES(uint16_t, 8)
TURN_SQUARES(uint32_t, 4)
TURN_ELEMENTS(uint64_t)

/* Runs `move` for each row r and column c. The compiler unrolls the usual short rows. */
#define SHORT_ROWS(rows, cols, move) \
    switch (cols) {                  \
    case 2:                          \
        EACH(rows, 2, move);         \
        break;                       \
    case 3:                          \
        EACH(rows, 3, move);         \
        break;                       \
    case 4:                          \
        EACH(rows, 4, move);         \
        break;                       \
    case 8:                          \
        EACH(rows, 8, move);         \
        break;                       \
    case 16:                         \
        EACH(rows, 16, move);        \
        break;                       \
    default:                         \
        EACH(rows, cols, move);      \
        break;                       \
    }
#define EACH(rows, cols, move)               \
    for (int64_t r = 0; r < (rows); r++)     \
        for (int64_t c = 0; c < (cols); c++) \
    move

#define BOX(T)                                                                                     \
    static void pack_row_##T(T *restrict d, const T *restrict s, int64_t n, int64_t step)          \
    {                                                                                              \
        if (step == 1)                                                                             \
            memcpy(d, s, (size_t)n * sizeof *d);                                                   \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                d[i] = s[i * step];                                                                \
    }                                                                                              \
    static void pack_rows_##T(T *restrict d, const T *restrict s, int64_t rows, int64_t row,       \
                              int64_t cols, int64_t col)                                           \
    {                                                                                              \
        if (row == 0) {                                                                            \
            pack_row_##T(d, s, cols, col);                                                         \
            repeat((char *)d, (size_t)cols * sizeof *d, (size_t)(rows * cols) * sizeof *d);        \
        } else if (col == 0) {                                                                     \
            SHORT_ROWS(rows, cols, d[r * cols + c] = s[r * row])                                   \
        } else if (col == 1 && (size_t)cols * sizeof *d >= LONG_ROW) {                             \
            for (int64_t r = 0; r < rows; r++)                                                     \
                memcpy(d + r * cols, s + r * row, (size_t)cols * sizeof *d);                       \
        } else if (col == 1) {                                                                     \
            SHORT_ROWS(rows, cols, d[r * cols + c] = s[r * row + c])                               \
        } else if (row == 1) {                                                                     \
            turn_##T(d, cols, s, col, rows, cols);                                                 \
        } else {                                                                                   \
            for (int64_t r = 0; r < rows; r++)                                                     \
                for (int64_t c = 0; c < cols; c++)                                                 \
                    d[r * cols + c] = s[r * row + c * col];                                        \
        }                                                                                          \
    }                                                                                              \
    static void pack_##T(T *restrict d, const T *restrict s, const struct weir__box *b, int dim,   \
                         int64_t numel)                                                            \
    {                                                                                              \
        int64_t n = b->shape[dim], step = b->stride[dim], part = numel / n;                        \
                                                                                                   \
        if (dim == b->ndim - 1) {                                                                  \
            pack_row_##T(d, s, n, step);                                                           \
        } else if (dim == b->ndim - 2) {                                                           \
            pack_rows_##T(d, s, n, step, b->shape[dim + 1], b->stride[dim + 1]);                   \
        } else {                                                                                   \
            for (int64_t i = 0; i < (step ? n : 1); i++)                                           \
                pack_##T(d + i * part, s + i * step, b, dim + 1, part);                            \
            if (step == 0)                                                                         \
                repeat((char *)d, (size_t)part * sizeof *d, (size_t)numel * sizeof *d);            \
        }                                                                                          \
    }                                                                                              \
    static void unpack_rows_##T(T *restrict d, const T *restrict s, int64_t rows, int64_t row,     \
                                int64_t cols, int64_t col)                                         \
    {                                                                                              \
        if (col == 1 && (size_t)cols * sizeof *d >= LONG_ROW) {                                    \
            for (int64_t r = 0; r < rows; r++)                                                     \
                memcpy(d + r * row, s + r * cols, (size_t)cols * sizeof *d);                       \
        } else if (col == 1) {                                                                     \
            SHORT_ROWS(rows, cols, d[r * row + c] = s[r * cols + c])                               \
        } else if (row == 1) {                                                                     \
            turn_##T(d, col, s, cols, cols, rows);                                                 \
        } else {                                                                                   \
            for (int64_t r = 0; r < rows; r++)                                                     \
                for (int64_t c = 0; c < cols; c++)                                                 \
                    d[r * row + c * col] = s[r * cols + c];                                        \
        }                                                                                          \
    }                                                                                              \
    static void unpack_##T(T *restrict d, const T *restrict s, const struct weir__box *b, int dim, \
                           int64_t numel)                                                          \
    {                                                                                              \
        int64_t n = b->shape[dim], step = b->stride[dim], part = numel / n;                        \
                                                                                                   \
        if (dim == b->ndim - 1)                                                                    \
            unpack_rows_##T(d, s, 1, 0, n, step);                                                  \
        else if (dim == b->ndim - 2)                                                               \
            unpack_rows_##T(d, s, n, step, b->shape[dim + 1], b->stride[dim + 1]);                 \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                unpack_##T(d + i * step, s + i * part, b, dim + 1, part);                          \
    }
BOX(uint8_t)
BOX(uint16_t)
BOX(uint32_t)
BOX(uint64_t)

void WEIR__ISA_NAME(weir__box_pack)(void *dst, const void *src, const struct weir__box *box,
                                    size_t elem)
{
    switch (elem) {
    case 1:
        pack_uint8_t(dst, src, box, 0, box->numel);
        break;
    case 2:
        pack_uint16_t(dst, src, box, 0, box->numel);
        break;
    case 4:
        pack_uint32_t(dst, src, box, 0, box->numel);
        break;
    default:
        pack_uint64_t(dst, src, box, 0, box->numel);
        break;
    }
}

void WEIR__ISA_NAME(weir__box_unpack)(void *dst, const void *src, const struct weir__box *box,
                                      size_t elem)
{
    switch (elem) {
    case 1:
        unpack_uint8_t(dst, src, box, 0, box->numel);
        break;
    case 2:
        unpack_uint16_t(dst, src, box, 0, box->numel);
        break;
    case 4:
        unpack_uint32_t(dst, src, box, 0, box->numel);
        break;
    default:
        unpack_uint64_t(dst, src, box, 0, box->numel);
        break;
    }
}
