/* Host kernels in several instruction sets.
 *
 * On x86-64 every source file of this folder is compiled three times, with
 * WEIR_ISA defined as v1 (baseline), v3 (AVX2, FMA, F16C) or v4 (AVX-512 F, BW,
 * CD, DQ, VL); elsewhere once, as v1. A name that such a file exports has the level as suffix:
 *
 *     WEIR__ISA_DECLARE(void, weir__foo, (float *x, size_t n));          header
 *     void WEIR__ISA_NAME(weir__foo)(float *x, size_t n) { ... }         source
 *     WEIR__ISA_PICK(weir__foo)(x, n);                                   caller
 *
 * A table is declared by WEIR__ISA_DECLARE_TABLE and picked the same way, as the address of the
 * best variant that this processor can run. Conversions of f16 and bf16 are in base/half.h.
 */
#ifndef WEIR_OPS_HOST_ISA_H
#define WEIR_OPS_HOST_ISA_H

#define WEIR__ISA_V1 1
#define WEIR__ISA_V3 3
#define WEIR__ISA_V4 4

/* The best of the three levels that this processor supports. The environment variable WEIR_ISA (v1,
 * v3, v4) lowers it, but never raises it; it is read once.
 * threads  any. */
int weir__isa(void);

/* The instructions for pairs of bf16, if level v4 is used. WEIR_ISA=v4 disables all of them,
 * WEIR_ISA=bf16 only AMX. The first call asks the system for AMX's registers. threads  any. */
enum weir__isa_pairs { WEIR__ISA_NO_PAIRS = 1, WEIR__ISA_BF16, WEIR__ISA_AMX };
enum weir__isa_pairs weir__isa_best_pairs(void);

#define WEIR__ISA_PASTE_(a, b) a##b
#define WEIR__ISA_PASTE(a, b) WEIR__ISA_PASTE_(a, b)

#ifdef WEIR_ISA
#define WEIR__ISA_LEVEL_v1 WEIR__ISA_V1
#define WEIR__ISA_LEVEL_v3 WEIR__ISA_V3
#define WEIR__ISA_LEVEL_v4 WEIR__ISA_V4
/* The level that this file is compiled for, as a number for #if. */
#define WEIR__ISA_LEVEL WEIR__ISA_PASTE(WEIR__ISA_LEVEL_, WEIR_ISA)
#define WEIR__ISA_NAME(name) WEIR__ISA_PASTE(name##_, WEIR_ISA)
#endif

/* WEIR_ISA_ONLY is the only level of a library built for one machine (WEIR_NATIVE). */
#if defined(WEIR_ISA_ONLY)
#define WEIR__ISA_DECLARE(type, name, args) type WEIR__ISA_PASTE(name##_, WEIR_ISA_ONLY) args
#define WEIR__ISA_DECLARE_TABLE(type, name) extern type WEIR__ISA_PASTE(name##_, WEIR_ISA_ONLY)
#define WEIR__ISA_PICK(name) (&WEIR__ISA_PASTE(name##_, WEIR_ISA_ONLY))
#elif defined(__x86_64__)
#define WEIR__ISA_DECLARE(type, name, args) \
    type name##_v1 args;                    \
    type name##_v3 args;                    \
    type name##_v4 args
#define WEIR__ISA_DECLARE_TABLE(type, name) extern type name##_v1, name##_v3, name##_v4
#define WEIR__ISA_PICK(name)                    \
    (weir__isa() == WEIR__ISA_V4   ? &name##_v4 \
     : weir__isa() == WEIR__ISA_V3 ? &name##_v3 \
                                   : &name##_v1)
#else
#define WEIR__ISA_DECLARE(type, name, args) type name##_v1 args
#define WEIR__ISA_DECLARE_TABLE(type, name) extern type name##_v1
#define WEIR__ISA_PICK(name) (&name##_v1)
#endif

#endif
