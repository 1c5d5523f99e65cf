/* The graph engine's C++ functions, which TorchAir's objects need in order to load. weir has no graph
 * engine: whoever calls one of them gets an exception, which TorchAir makes a Python one. Its other
 * mode (reduce-overhead, npugraph_ex) captures streams and needs none of this. */
#include <stdexcept>
#include <string>

#include "names.h"

namespace {
[[noreturn]] void refuse(const char *name)
{
    throw std::runtime_error(std::string(name) +
                             ": there is no graph engine (GE) under weir: use the mode "
                             "\"reduce-overhead\", which captures streams, in place of "
                             "\"max-autotune\"");
}
} // namespace

#define DEFINE(symbol, name)                                               \
    extern "C" __attribute__((visibility("default"))) void symbol(void);   \
    extern "C" void symbol(void)                                           \
    {                                                                      \
        refuse(name);                                                      \
    }
WEIR_GE_LIST(DEFINE)
