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
        return weir__fail(WEIR_EINVAL, "%s: size %zu is not the sizeof of its struct", what, size);
    for (size_t i = own_size; i < size; i++)
        if (((const char *)given)[i])
            return weir__fail(
                WEIR_EINVAL,
                "%s: byte %zu of %zu is set, but this library, version %s, knows only %zu bytes",
                what, i, size, weir_version(), own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    return WEIR_OK;
}
