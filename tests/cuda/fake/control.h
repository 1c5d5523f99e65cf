/* A GPU for machines that have none: the driver, the compiler and the products library in one
 * shared library, which weir opens in place of NVIDIA's ($WEIR_LIBCUDA and its two sisters).
 *
 * Memory of the device is the host's. Streams run in order on one thread, which takes from all
 * of them at random; events, captures and graphs keep the order that CUDA promises and no more.
 * Kernel sources are compiled for the host and run there (../emulate). Handles that are gone,
 * contexts that are not current and calls from a host function end the process.
 *
 * A test steers it through the table below, found by its name with dlsym. */
#ifndef TESTS_CUDA_FAKE_CONTROL_H
#define TESTS_CUDA_FAKE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/code.h"

/* What a test puts in a kernel's place, on the thread that runs streams. Returns 0 or the code
 * that the GPU is lost with. */
typedef int (*fake_kernel)(void *args, struct weir__code_context *context);

struct fake_control {
    /* The n-th call from now on fails with the code, counting from 1; 0: none does. A fatal code
     * (700) stays, and is the driver's alone. Calls that give something back do so and still say
     * it. */
    void (*fail_call)(uint64_t n, int code);
    /* Every call of the function finds no memory; NULL: none does. The name is the caller's. */
    void (*lack_memory)(const char *function);
    uint64_t (*calls)(void); /* so far */
    /* The function of the n-th call since `watch`, from 1; NULL beyond the last. */
    void (*watch)(void);
    const char *(*watched)(uint64_t n);
    /* What has not been given back, "" for nothing: "2 events, 1 stream". */
    void (*live)(char *text, size_t size);
    /* Streams stand still but for the contexts' own, or go on. */
    void (*hold)(bool held);
    /* The text's kernel is this function; NULL: weir's own again. */
    void (*replace)(const char *text, fake_kernel kernel);
    /* In sources compiled from now on, the first `old` in the file is `new_text`; NULL: in none. */
    void (*mutate)(const char *file, const char *old, const char *new_text);
    /* The pool gives out a block of the GPU's memory: kernels touch no byte beyond it. */
    void (*give_block)(const void *address, size_t size);
    /* From now on a kernel's fault is kept instead of ending the process; the first one, "" for
     * none.
     */
    void (*catch_faults)(bool catches);
    const char *(*caught)(void);
    /* For such a kernel: an index is out of range, as weir's own say it. */
    void (*report)(struct weir__code_context *context, int64_t index, int64_t limit, int64_t at);
    /* The library offers several algorithms for a product; one of them, or with -1 none, takes
     * longer, as far as events tell: by so much that what else the machine does makes no
     * difference. */
    void (*slow_algorithm)(
        int algorithm); /* or FAKE_EVERY_ALGORITHM: then few products take less than many */
    int (*last_algorithm)(void); /* the one of the last product that ran; -1 before the first */
    /* GPUs cannot, or can, reach each other's memory. */
    void (*apart)(bool are);
    /* Whether every entry in the text waits for earlier kernels before it does anything else. */
    bool (*waits)(const char *text);
    /* Of the graph that was instantiated last: programmatic edges, and others. */
    void (*edges)(int *early, int *full);
    /* The nodes of the graph that was launched last, each with its cores and those before it.
     * Events are left out, and nothing may come after one. */
    void (*launched)(char *text, size_t size);
    /* The compute capability of devices opened from now on; 9 at first. */
    void (*set_major)(int major);
    /* A lost GPU is as new, and no call fails. */
    void (*heal)(void);
};

#define FAKE_EVERY_ALGORITHM (-2)
#define FAKE_CONTROL "fake_cuda_control"

#endif
