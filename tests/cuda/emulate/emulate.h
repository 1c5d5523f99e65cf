/* Kernel sources on the host.
 *
 * compile.c has the host's compiler make a module of a source, which is kept by its content. A
 * launch runs the blocks one after the other, in an order of its own; those of a cluster take turns
 * from one meeting to the next (cluster.c); the threads of a block are
 * fibers (fiber.c) that go on until they wait for each other (block.c, group.c). Copies and
 * products that run beside the threads are done as late as a GPU may do them: when a thread waits
 * for them (async.c). Each access is checked (check.c): bounds    memory that the fake driver has
 * given, or shared memory of the launch's size; order     two threads that touch the same bytes,
 * one of them writing, have a barrier between them, or both are atomic; blocks of a launch have
 * none, but may count (publish.c) or meet as a cluster; contents  shared memory is written before
 * it is read. A fault ends the process with what, who and where, unless a test catches it.
 *
 * One thread, that of the fake GPU's engine, runs kernels. */
#ifndef TESTS_CUDA_EMULATE_EMULATE_H
#define TESTS_CUDA_EMULATE_EMULATE_H

#include <stdbool.h>

#include "table.h"

struct emu_source {
    const char *text, *name; /* the name is the entry's, too */
    int nheaders;
    const char *const *headers, *const *names;
    int noptions;
    const char *const *options; /* of these, -D ones are taken */
};

/* The module's path, made if it is not there; false with the compiler's words in `log`. */
bool emu_compile(const struct emu_source *source, char *path, size_t size, char *log,
                 size_t log_size);
/* NULL if it cannot be loaded. A module stays loaded. */
struct emu_module *emu_load(const char *path);
/* The bytes of parameter i; 0 if it has less. */
size_t emu_param_size(const struct emu_module *module, int i);

/* Memory that kernels may touch. */
struct emu_range {
    uintptr_t first, size;
};

struct emu_launch {
    const struct emu_module *module;
    unsigned grid, threads, shared, cluster; /* blocks of a cluster: 1 without clusters */
    void **params;
    const struct emu_range *ranges; /* by address, none of them inside another */
    int nranges;
};
void emu_run(const struct emu_launch *launch);

/* From here on a fault is kept and the kernel goes on; false: it ends the process again. */
void emu_catch(bool catches);
/* The first fault since then, "" without one. */
const char *emu_caught(void);

#endif
