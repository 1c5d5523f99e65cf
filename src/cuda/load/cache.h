/* The cache on disk. */
#ifndef WEIR_CUDA_LOAD_CACHE_H
#define WEIR_CUDA_LOAD_CACHE_H

#include <stddef.h>
#include <stdint.h>

#define WEIR__CUDA_HASH UINT64_C(0xcbf29ce484222325) /* of nothing */
uint64_t weir__cuda_hash(uint64_t h, const void *bytes, size_t size);
/* A file's bytes, to be freed with weir__free; NULL if it is not there. */
char *weir__cuda_cache_read(const char *name, size_t *size);
void weir__cuda_cache_write(const char *name, const void *bytes, size_t size);

#endif
