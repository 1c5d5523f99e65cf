/* Two-dimensional convolution on one core.
 *
 * A padded copy of the part of the image at hand, taken apart by stride, makes
 * every row of the im2col matrix a stretch of memory at a known offset, so the
 * matrix itself is never written down.
 */
#ifndef WEIR_OPS_HOST_CONV_H
#define WEIR_OPS_HOST_CONV_H

#include "ops/host/isa.h"
#include "weir/launch.h"

struct weir__conv {
    const char *x, *weight, *bias; /* bias may be NULL */
    char *out;                     /* [batch, groups * outputs, oh, ow], contiguous */
    weir_dtype dtype;
    int64_t groups, channels, outputs; /* the last two of one group */
    int64_t h, w, kh, kw, oh, ow;
    int64_t stride[2], padding[2], dilation[2];
    int64_t x_step[4], weight_step[4], bias_step; /* in elements */
    char *packed; /* GPUs: where the weight is laid out anew, if it is; else NULL */
};

/* On GPUs without tensor cores for the type: a row of the product. It is one tap of one channel. */
struct weir__conv_row {
    int64_t x; /* from the first tap of the first channel, in elements */
    int32_t down, right;
    int32_t left; /* channels from this one on, 16 at most; 0 is no row */
};

/* GPUs: a tile of outputs is 64 filters at so many columns and rows of an image, together at
 * most WEIR__CONV_TILE places. */
#define WEIR__CONV_TILE 256

static inline int64_t weir__conv_tile_columns(const struct weir__conv *c)
{
    return (c->ow + (c->ow + 63) / 64 - 1) / ((c->ow + 63) / 64);
}

static inline int64_t weir__conv_tile_rows(const struct weir__conv *c)
{
    int64_t rows = WEIR__CONV_TILE / weir__conv_tile_columns(c);

    return rows < c->oh ? rows : c->oh;
}

/* Rows and columns of the image that such a tile needs. */
static inline int64_t weir__conv_patch_rows(const struct weir__conv *c)
{
    return (weir__conv_tile_rows(c) - 1) * c->stride[0] + (c->kh - 1) * c->dilation[0] + 1;
}

static inline int64_t weir__conv_patch_columns(const struct weir__conv *c)
{
    return (weir__conv_tile_columns(c) - 1) * c->stride[1] + (c->kw - 1) * c->dilation[1] + 1;
}

/* Rows and columns of one channel's padded copy for `rows` output rows, for each
 * of the stride[0] * stride[1] phases that it is taken apart into. */
static inline int64_t weir__conv_rows(const struct weir__conv *c, int64_t rows)
{
    return rows + (c->kh - 1) * c->dilation[0] / c->stride[0];
}

static inline int64_t weir__conv_pitch(const struct weir__conv *c)
{
    return c->ow + (c->kw - 1) * c->dilation[1] / c->stride[1];
}

/* Elements of the padded copy for `rows` output rows. */
static inline int64_t weir__conv_copy_size(const struct weir__conv *c, int64_t rows)
{
    return c->channels * c->stride[0] * c->stride[1] * weir__conv_rows(c, rows) *
           weir__conv_pitch(c);
}

/* Whether local memory holds what one output row takes, of any compute type. If
 * not, im2col is written down piece by piece, which needs the weight's last three
 * dims to be contiguous. */
static inline bool weir__conv_fits(const struct weir__conv *c)
{
    const int64_t room = WEIR_LOCAL_BYTES / (int64_t)sizeof(double) - 4096;

    /* The order of the checks matters: only numbers that are known to be small are multiplied. */
    return c->channels * c->kh * c->kw <= room / 10 && c->stride[0] <= room &&
           c->stride[1] <= room && c->stride[0] * c->stride[1] <= room &&
           weir__conv_rows(c, 1) * weir__conv_pitch(c) <= room &&
           weir__conv_copy_size(c, 1) + c->channels * c->kh * c->kw * 10 <= room;
}

/* Outputs o0 .. o1 of one group and rows y0 .. y1 of one image. Each element is
 * summed over channel, ky, kx in this order, so that the cut does not show.
 * The first is for f32, f16 and bf16, the second for f64.
 * threads  any. */
WEIR__ISA_DECLARE(void, weir__conv_f32,
                  (const struct weir__conv *c, int64_t image, int64_t group, int64_t o0, int64_t o1,
                   int64_t y0, int64_t y1, void *local));
WEIR__ISA_DECLARE(void, weir__conv_f64,
                  (const struct weir__conv *c, int64_t image, int64_t group, int64_t o0, int64_t o1,
                   int64_t y0, int64_t y1, void *local));

#endif
