/* Rotary position embedding. V0: type; V1: type of the angles; V2: interleaved */
#include "kernel.cuh"
#include "ops/host/math/rotary.h"

typedef Type<V0>::compute real;

extern "C" __global__ void rotary(const __grid_constant__ weir__rotary a)
{
    await_earlier();
    const weir__rows &rows = a.rows;
    int64_t half = rows.n / 2;

    for (int64_t e = thread_index(); e < rows.count * half; e += thread_count()) {
        int64_t r = e / half, i = e % half, position = r / a.heads % a.length, in, out;
        int64_t first = V2 ? 2 * i : i, second = V2 ? 2 * i + 1 : i + half;
        real c = (real)load<V1>(a.cosines, position * a.cos_row + i * a.cos_step);
        real s = (real)load<V1>(a.sines, position * a.sin_row + i * a.sin_step), x, y;

        weir__rows_at(&rows, r, &in, &out);
        x = load<V0>(a.in, in + first * rows.in_step);
        y = load<V0>(a.in, in + second * rows.in_step);
        store<V0>(a.out, out + first * rows.out_step, x * c - y * s);
        store<V0>(a.out, out + second * rows.out_step, x * s + y * c);
    }
}
