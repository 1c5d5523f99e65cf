/* Copies of a thread and products of a warpgroup, which run beside the threads: here as late as
 * they may, when the thread waits for them. */
#include <stdlib.h>
#include <string.h>

#include "emu.h"

/* ---- copies ---- */

void emu_copy(uint32_t to, const void *from, unsigned size, unsigned there)
{
    struct emu_thread *t = emu_self();

    if (!t->copies && !(t->copies = calloc(EMU_COPIES, sizeof *t->copies)))
        abort();
    if (t->ncopies == EMU_COPIES) {
        emu_fault("a thread has more than %d copies under way", EMU_COPIES);
        return;
    }
    if (to % size || (uintptr_t)from % size)
        emu_fault("a copy of %u bytes from %p to %x of shared memory is not aligned", size, from,
                  to);
    /* From now on its memory is the copy's. */
    emu_access(emu_shared_at(to), size, EMU_CLAIM, __builtin_return_address(0));
    t->copies[t->ncopies++] = (struct emu_copy){.to = to,
                                                .from = from,
                                                .size = (uint16_t)size,
                                                .there = (uint16_t)there,
                                                .group = t->copy_group};
}

void emu_copies_commit(void)
{
    emu_self()->copy_group++;
}

void emu_copies_wait(int left)
{
    struct emu_thread *t = emu_self();
    int kept = 0;

    for (int i = 0; i < t->ncopies; i++) {
        const struct emu_copy c = t->copies[i];
        char *to = emu_shared_at(c.to);

        if (c.group >= t->copy_group - left) {
            t->copies[kept++] = c;
            continue;
        }
        if (c.there)
            emu_access(c.from, c.there, EMU_READ, __builtin_return_address(0));
        emu_access(to, c.size, EMU_WRITE, __builtin_return_address(0));
        memcpy(to, c.from, c.there);
        memset(to + c.there, 0, (size_t)(c.size - c.there));
    }
    t->ncopies = kept;
}

/* ---- products ---- */

static float half_of(const char *p, bool is_f16)
{
    uint16_t h;
    uint32_t bits, exponent, digits;
    float x;

    memcpy(&h, p, sizeof h);
    if (!is_f16) {
        bits = (uint32_t)h << 16;
    } else {
        exponent = h >> 10 & 31;
        digits = h & 1023;
        if (!exponent)
            return (h & 0x8000 ? -1.0F : 1.0F) * (float)digits * 0x1p-24F;
        bits = (uint32_t)(h & 0x8000) << 16 | (exponent == 31 ? 255U : exponent + 112) << 23 |
               digits << 13;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Where an operand's element lies: row `r` of what is kept, `k` of what is summed over. */
static char *operand(uint64_t descriptor, unsigned r, unsigned k, bool turned)
{
    uint32_t at = (uint32_t)(descriptor & 0x3fff) << 4;
    uint32_t leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4;
    uint32_t stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;

    if (turned)
        at += r / 64 * leading + k / 8 * stride + k % 8 * 128 + r % 64 * 2;
    else
        at += r / 8 * stride + r % 8 * 128 + k * 2;
    return emu_shared_at(at ^ (at >> 7 & 7) << 4);
}

/* A warp reads its rows of a and all of b, each lane a share of it. */
static void read_operands(const struct emu_product *p)
{
    unsigned lane = (unsigned)emu.current % 32, warp = (unsigned)emu.current / 32 % 4;

    if (!p->is_held && lane < 16)
        for (unsigned k = 0; k < 16; k += 8)
            emu_access(operand(p->a, warp * 16 + lane, k, false), 16, EMU_READ, NULL);
    if (p->b_turned)
        for (unsigned i = lane; i < 16U * p->columns / 8; i += 32)
            emu_access(operand(p->b, i / 16 * 8, i % 16, true), 16, EMU_READ, NULL);
    else
        for (unsigned r = lane; r < p->columns; r += 32)
            for (unsigned k = 0; k < 16; k += 8)
                emu_access(operand(p->b, r, k, false), 16, EMU_READ, NULL);
}

static void multiply(const struct emu_product *p)
{
    unsigned lane = (unsigned)emu.current % 32, warp = (unsigned)emu.current / 32 % 4;
    float a[2][16];

    for (unsigned row = 0; row < 2; row++)
        for (unsigned k = 0; k < 16; k++) {
            const char *from = p->is_held ? (const char *)&p->held[row * 8 + k / 2] + k % 2 * 2
                                          : operand(p->a, warp * 16 + lane / 4 + row * 8, k, false);

            a[row][k] = half_of(from, p->is_f16);
        }
    for (unsigned column = 0; column < p->columns; column++) {
        float b[16];

        if (column % 8 / 2 != lane % 4)
            continue;
        for (unsigned k = 0; k < 16; k++)
            b[k] = half_of(operand(p->b, column, k, p->b_turned), p->is_f16);
        for (unsigned row = 0; row < 2; row++) {
            float *c = &p->c[column / 8][row * 2 + column % 2];
            double sum = p->more ? (double)*c : 0;

            for (int k = 0; k < 16; k++)
                sum += (double)a[row][k] * (double)b[k];
            *c = (float)sum;
        }
    }
}

void emu_product(const struct emu_product *product)
{
    struct emu_thread *t = emu_self();

    if (!t->products && !(t->products = calloc(EMU_PRODUCTS, sizeof *t->products)))
        abort();
    if (t->nproducts == EMU_PRODUCTS) {
        emu_fault("a thread has more than %d products under way", EMU_PRODUCTS);
        return;
    }
    read_operands(product);
    t->products[t->nproducts++] = (struct emu_pending){*product, t->product_group};
}

void emu_products_commit(void)
{
    emu_self()->product_group++;
}

/* All lanes come here, which orders what they read before what any of them does next. */
void emu_products_wait(int left)
{
    struct emu_thread *t = emu_self();
    int kept = 0;

    for (int i = 0; i < t->nproducts; i++) {
        const struct emu_pending p = t->products[i];

        if (p.group >= t->product_group - left) {
            t->products[kept++] = p;
            continue;
        }
        read_operands(&p.product);
        multiply(&p.product);
    }
    t->nproducts = kept;
    emu_sync_warp(~0U);
}
