/* For the run-time compiler, which has no C library. */
#ifndef WEIR_KERNELS_STDINT_H
#define WEIR_KERNELS_STDINT_H

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;

#define INT64_C(x) x##ll
#define UINT32_MAX 0xffffffffu

#endif
