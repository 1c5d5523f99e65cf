#include "base/sized.h"

weir_status weir__sized_take(void *own, size_t own_size, size_t first, const void *given,
                             const char *what)
{
    size_t size;

    memset(own, 0, own_size);
    if (!given)
        return WEIR_OK;
    memcpy(&size, given, sizeof size);
    size = size ? size : first;
    if (size < sizeof size)
        return weir__fail(WEIR_EINVAL, "%s: a size of %zu bytes is none of weir's", what, size);
    for (size_t i = own_size; i < size; i++)
        if (((const char *)given)[i])
            return weir__fail(WEIR_EINVAL,
                              "%s: byte %zu of %zu is set; this library, version %s, knows %zu",
                              what, i, size, weir_version(), own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    return WEIR_OK;
}
