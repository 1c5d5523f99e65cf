/* A hash of a text that is the same in every process (FNV-1a). Its upper bits are better mixed. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include <stdint.h>

static inline uint64_t weir__hash_text(const char *text)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}

#endif
