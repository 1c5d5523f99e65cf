/* The cache on disk. */
#ifndef WEIR_CUDA_LOAD_CACHE_H
#define WEIR_CUDA_LOAD_CACHE_H

#include <stddef.h>
#include <stdint.h>

#define WEIR__CUDA_HASH UINT64_C(0xcbf29ce484222325) /* the initial value of a hash */
uint64_t weir__cuda_hash(uint64_t h, const void *bytes, size_t size);
/* Returns a file's bytes, which the caller frees with weir__free; NULL if it cannot be read. */
char *weir__cuda_cache_read(const char *name, size_t *size);
void weir__cuda_cache_write(const char *name, const void *bytes, size_t size);

#endif
