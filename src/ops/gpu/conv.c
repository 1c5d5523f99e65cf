/* Convolution on a GPU. f16 and bf16 run on tensor cores, f32 and f64 on plain cores, in tiles. A
 * general kernel handles all other cases, in tiles of its own or with a thread per output. */
#include "ops/gpu/gpu.h"
#include "ops/gpu/spread.h"

#define FILTERS 64             /* filters of a tile, in all sources */
#define PLACES 128             /* output positions of a tile of conv.cu */
#define FEWEST 8               /* a group with fewer outputs does not fill a tile */
#define DEPTH 16               /* rows of a step of conv_real.cu */
#define SHARED_MOST (99 << 10) /* available on every GPU that weir supports */

struct conv_args {
    struct weir__conv conv;
    int64_t images;
};

/* ---- every shape and type ---- */

static void plain_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct conv_args *a = args;
    const struct weir__conv *c = &a->conv;
    int64_t places = a->images * c->oh * c->ow;

    (void)phase;
    l->variant[0] = (uint8_t)c->dtype;
    l->variant[1] = c->outputs >= FEWEST;
    l->threads = WEIR__GPU_THREADS;
    if (l->variant[1])
        weir__gpu_spread(weir__div_up(places, PLACES) * weir__div_up(c->outputs, FILTERS) *
                             c->groups,
                         cores, 2, l);
    else
        weir__gpu_spread_threads(places * c->groups * c->outputs, cores, l);
}

static const struct weir__code plain = {.text = "conv", .contract = true, .shape = plain_shape};

/* ---- tensor cores ---- */

static int64_t shared_bytes(const struct weir__conv *c, int64_t steps)
{
    int64_t patch = weir__conv_patch_rows(c) * weir__conv_patch_columns(c);
    int64_t out = FILTERS * (WEIR__CONV_TILE + 8) * 2;

    return weir__max(out, (2 * FILTERS + patch) * steps * 32);
}

/* The channels taken at a time, in steps of 16: as many as exist and fit; 0 if not even 16 fit. */
static int64_t steps_of(const struct weir__conv *c)
{
    int64_t steps = c->channels > 32 ? 4 : c->channels > 16 ? 2 : 1;

    while (steps && shared_bytes(c, steps) > SHARED_MOST)
        steps /= 2;
    return steps;
}

static int64_t filter_tiles(const struct weir__conv *c)
{
    return weir__div_up(c->outputs, FILTERS);
}

/* Whether the kernel on tensor cores supports this shape. */
static bool suits_tiles(const struct weir__conv *c)
{
    return (c->dtype == WEIR_F16 || c->dtype == WEIR_BF16) && c->outputs >= FEWEST && c->channels &&
           c->oh && c->ow && steps_of(c);
}

static int64_t packed_elements(const struct weir__conv *c)
{
    int64_t channels = steps_of(c) * 16;

    return c->groups * filter_tiles(c) * FILTERS * weir__div_up(c->channels, channels) * channels *
           c->kh * c->kw;
}

static int64_t tile_count(const struct weir__conv *c, int64_t images)
{
    return images * c->groups * filter_tiles(c) * weir__div_up(c->ow, weir__conv_tile_columns(c)) *
           weir__div_up(c->oh, weir__conv_tile_rows(c));
}

static void tiles_shape(const void *args, unsigned phase, unsigned cores,
                        struct weir__code_launch *l)
{
    const struct conv_args *a = args;

    l->variant[0] = (uint8_t)a->conv.dtype;
    l->variant[1] = (uint8_t)steps_of(&a->conv);
    if (phase == 0) {
        weir__gpu_spread_threads(packed_elements(&a->conv), cores, l);
        return;
    }
    l->threads = 256;
    l->shared = (uint32_t)shared_bytes(&a->conv, steps_of(&a->conv));
    l->grid = (uint32_t)tile_count(&a->conv, a->images);
}

static const struct weir__code tiles = {
    .text = "conv_tiles", .contract = true, .shape = tiles_shape};

/* ---- f32 and f64 ---- */

/* Whether the rows of a step are the channels of one kernel position; the last step of each
 * position may be partly empty. */
static bool by_taps(const struct weir__conv *c)
{
    return weir__div_up(c->channels, DEPTH) * DEPTH * 4 <= c->channels * 5;
}

static int64_t row_count(const struct weir__conv *c)
{
    int64_t channels = by_taps(c) ? weir__div_up(c->channels, DEPTH) * DEPTH : c->channels;

    return weir__div_up(channels * c->kh * c->kw, DEPTH) * DEPTH;
}

static bool suits_real(const struct weir__conv *c)
{
    return (c->dtype == WEIR_F32 || c->dtype == WEIR_F64) && c->outputs >= FEWEST && c->channels &&
           c->oh && c->ow && row_count(c) <= INT32_MAX / 2 && c->oh * c->ow <= INT32_MAX / 2 &&
           c->h <= INT32_MAX / 4 && c->w <= INT32_MAX / 4 && c->padding[0] <= INT32_MAX / 4 &&
           c->padding[1] <= INT32_MAX / 4;
}

static int64_t real_elements(const struct weir__conv *c)
{
    return c->groups * filter_tiles(c) * row_count(c) * FILTERS;
}

static int64_t real_tiles(const struct weir__conv *c, int64_t images)
{
    int64_t places = c->dtype == WEIR_F64 ? 64 : 128;

    return c->groups * filter_tiles(c) * weir__div_up(images * c->oh * c->ow, places);
}

static void real_shape(const void *args, unsigned phase, unsigned cores,
                       struct weir__code_launch *l)
{
    const struct conv_args *a = args;

    l->variant[0] = (uint8_t)a->conv.dtype;
    l->variant[1] = by_taps(&a->conv);
    if (phase == 0)
        weir__gpu_spread_threads(real_elements(&a->conv), cores, l);
    else
        l->grid = (uint32_t)real_tiles(&a->conv, a->images);
    l->threads = 128;
}

static const struct weir__code real = {.text = "conv_real", .contract = true, .shape = real_shape};

/* ---- choice of the kernel ---- */

size_t weir__gpu_conv_scratch(const struct weir__conv *c)
{
    if (suits_tiles(c))
        return (size_t)packed_elements(c) * 2;
    if (suits_real(c))
        return (size_t)real_elements(c) * weir_dtype_size(c->dtype) +
               (size_t)row_count(c) * sizeof(struct weir__conv_row);
    return 0;
}

const struct weir__code *weir__gpu_conv(struct weir__conv *c, int64_t images, void *scratch)
{
    bool tensor = suits_tiles(c) && tile_count(c, images) <= INT32_MAX;

    if (!scratch || !images || (!tensor && (!suits_real(c) || real_tiles(c, images) > INT32_MAX)))
        return &plain;
    c->packed = scratch;
    return tensor ? &tiles : &real;
}
