/* Times of steps by their size: predicted once for the points of a grid, interpolated linearly in
 * between. */
#include <math.h>
#include <string.h>

#include "graph/estimate/serve_state.h"

enum { SLOTS = 4096 };

struct point {
    bool known;
    int batch, context, chunk, chunk_context; /* indices in the grid; batch -1: a prefill */
    double us;
};

struct weir__step_times {
    weir_device *dev;
    const struct weir__llm *m;
    struct weir__deploy d;
    struct point points[SLOTS];
    weir_status status;
};

struct weir__step_times *weir__step_times_new(weir_device *dev, const struct weir__llm *m,
                                              const struct weir__deploy *d)
{
    struct weir__step_times *t = weir__calloc(1, sizeof *t);

    if (t) {
        t->dev = dev;
        t->m = m;
        t->d = *d;
    }
    return t;
}

void weir__step_times_free(struct weir__step_times *t)
{
    weir__free(t);
}

weir_status weir__step_times_status(const struct weir__step_times *t)
{
    return t->status;
}

/* Two grid points per octave: 1, 1.41, 2, ... */
static double size_at(int place)
{
    return place < 0 ? 0 : exp2(place / 2.0);
}

/* The grid point below `size`, and the position between it and the next one, 0..1. */
static int place_of(double size, double *share)
{
    int place;

    *share = 0;
    if (!(size > 0))
        return -1;
    place = (int)floor(2 * log2(fmax(size, 1)));
    *share = (fmax(size, 1) - size_at(place)) / (size_at(place + 1) - size_at(place));
    return place;
}

static double point_us(struct weir__step_times *t, const struct point *at)
{
    uint32_t h = (uint32_t)at->batch * 73856093u ^ (uint32_t)at->context * 19349663u ^
                 (uint32_t)at->chunk * 83492791u ^ (uint32_t)at->chunk_context * 2971215073u;
    struct weir__deploy d = t->d;
    bool prefill = at->batch == -1;
    struct point *p;

    for (uint32_t i = 0;; i++) { /* after 8 probes the new point replaces another */
        p = &t->points[(h + i) % SLOTS];
        if (!p->known || i == 8)
            break;
        if (p->batch == at->batch && p->context == at->context && p->chunk == at->chunk &&
            p->chunk_context == at->chunk_context)
            return p->us;
    }
    if (t->status)
        return 1;
    if (prefill) {
        /* tokens are divided among the stages, and halved for two microbatches */
        d.batch = d.pp * (d.placement == WEIR__PLACE_TWO ? 2 : 1);
        d.prompt = fmax(1, size_at(at->chunk) / d.batch);
        d.chunk_context = fmax(1, size_at(at->chunk_context));
        d.chunk = 0;
    } else {
        d.batch = fmax(size_at(at->batch), 1e-3);
        d.prompt = fmax(1, size_at(at->context));
        d.output = 0;
        d.chunk = size_at(at->chunk);
        d.chunk_context = at->chunk >= 0 ? fmax(1, size_at(at->chunk_context)) : 0;
    }
    *p = *at;
    p->known = true;
    t->status = weir__estimate_time_step(t->dev, t->m, &d, prefill, &p->us);
    return p->us;
}

/* Interpolates between the grid points around a size, in the dims with share > 0. */
static double between(struct weir__step_times *t, const struct point *at, const double share[4])
{
    double us = 0;

    for (int corner = 0; corner < 16; corner++) {
        struct point p = *at;
        double weight = 1;

        for (int k = 0; k < 4; k++)
            weight *= corner >> k & 1 ? share[k] : 1 - share[k];
        if (!(weight > 0))
            continue;
        p.batch += corner & 1;
        p.context += corner >> 1 & 1;
        p.chunk += corner >> 2 & 1;
        p.chunk_context += corner >> 3 & 1;
        us += weight * point_us(t, &p);
    }
    return us;
}

double weir__decode_us(struct weir__step_times *t, double batch, double context, double chunk,
                       double chunk_context)
{
    double share[4];
    struct point at = {.batch = place_of(fmax(1, batch), &share[0]),
                       .context = place_of(fmax(1, context), &share[1]),
                       .chunk = place_of(chunk, &share[2]),
                       .chunk_context =
                           place_of(chunk > 0 ? fmax(1, chunk_context) : 0, &share[3])};

    return between(t, &at, share);
}

double weir__prefill_us(struct weir__step_times *t, double tokens, double context)
{
    double share[4] = {0, 0, 0, 0};
    struct point at = {.batch = -1,
                       .context = 0,
                       .chunk = place_of(fmax(1, tokens), &share[2]),
                       .chunk_context = place_of(fmax(1, context), &share[3])};

    return between(t, &at, share);
}
