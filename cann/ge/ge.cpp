/* The graph engine's C++ functions, which TorchAir's and MindSpore's libraries need in order to
 * load. weir has no graph engine: each function throws an exception, which both turn into a Python
 * exception. The exceptions to this are the functions that MindSpore calls before it runs an
 * operator by name (aclopCompileAndExecute): they work for the operators that weir has. TorchAir's
 * other mode (reduce-overhead, npugraph_ex) captures streams, and MindSpore's PyNative mode and its
 * graphs of jit_level O0 call operators: none of them needs the graph engine. */
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "names.h"

#include "cann.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
[[noreturn]] void refuse(const char *name)
{
    throw std::runtime_error(std::string(name) +
                             ": there is no graph engine (GE) under weir: use TorchAir's mode "
                             "\"reduce-overhead\" in place of \"max-autotune\", and MindSpore's "
                             "PyNative mode or jit_level \"O0\" in place of \"O2\"");
}
} // namespace

#define REFUSE(symbol, name)   \
    EXPORT void symbol(void);  \
    EXPORT void symbol(void)   \
    {                          \
        refuse(name);          \
    }
WEIR_GE_TORCHAIR_LIST(REFUSE)
WEIR_GE_MINDSPORE_LIST(REFUSE)

#define IGNORE(symbol, name)  \
    EXPORT void symbol(void); \
    EXPORT void symbol(void)  \
    {                         \
    }
WEIR_GE_REGISTRATION_LIST(IGNORE)

/* ge::StatusFactory::Instance(): callers register error texts in this object, which begins with a
 * map. It is never freed, since libraries use it while they are being unloaded. */
EXPORT void *_ZN2ge13StatusFactory8InstanceEv(void);
EXPORT void *_ZN2ge13StatusFactory8InstanceEv(void)
{
    static auto *texts = new std::map<unsigned, std::string>[2];

    return texts;
}

/* ge::AscendString: works, since callers collect options in maps of it before they call the graph
 * engine, and that code does not expect exceptions. An object is two words, of which only the first
 * is used. Its text is never freed. */
struct text {
    const std::string *value;
    void *nothing;
};

EXPORT void _ZN2ge12AscendStringC1EPKc(text *self, const char *from);
EXPORT void _ZN2ge12AscendStringC1EPKc(text *self, const char *from)
{
    self->value = new std::string(from ? from : "");
    self->nothing = nullptr;
}

EXPORT const char *_ZNK2ge12AscendString9GetStringEv(const text *self);
EXPORT const char *_ZNK2ge12AscendString9GetStringEv(const text *self)
{
    return self->value ? self->value->c_str() : "";
}

EXPORT bool _ZNK2ge12AscendStringeqERKS0_(const text *a, const text *b);
EXPORT bool _ZNK2ge12AscendStringeqERKS0_(const text *a, const text *b)
{
    return std::string(_ZNK2ge12AscendString9GetStringEv(a)) == _ZNK2ge12AscendString9GetStringEv(b);
}

EXPORT bool _ZNK2ge12AscendStringltERKS0_(const text *a, const text *b);
EXPORT bool _ZNK2ge12AscendStringltERKS0_(const text *a, const text *b)
{
    return std::string(_ZNK2ge12AscendString9GetStringEv(a)) < _ZNK2ge12AscendString9GetStringEv(b);
}

/* The overload that MindSpore calls succeeds. TorchAir's, which takes AscendStrings, throws. */
EXPORT unsigned _ZN2ge12GEInitializeERKSt3mapISsSsSt4lessISsESaISt4pairIKSsSsEEE(const void *options);
EXPORT unsigned _ZN2ge12GEInitializeERKSt3mapISsSsSt4lessISsESaISt4pairIKSsSsEEE(const void *)
{
    return 0;
}

EXPORT unsigned _ZN2ge10GEFinalizeEv(void);
EXPORT unsigned _ZN2ge10GEFinalizeEv(void)
{
    return 0;
}

/* A std::string of the old ABI is a pointer to its characters. */
using old_text = const char *;

EXPORT bool _ZN2ge15OperatorFactory9IsExistOpEPKc(const char *type);
EXPORT bool _ZN2ge15OperatorFactory9IsExistOpEPKc(const char *type)
{
    if (!weir_cann_has_named(type))
        throw std::runtime_error(std::string("operator '") + (type ? type : "") +
                                 "': there is no graph engine (GE) under weir, and weir does not "
                                 "run it by name: look for one of mint or ops that calls aclnn");
    return true;
}

EXPORT bool _ZN2ge15OperatorFactory9IsExistOpERKSs(const old_text *type);
EXPORT bool _ZN2ge15OperatorFactory9IsExistOpERKSs(const old_text *type)
{
    return _ZN2ge15OperatorFactory9IsExistOpEPKc(*type);
}

namespace {
/* ge::Operator: has a virtual destructor and a shared pointer to its data, which is NULL here. The
 * caller copies objects with its own code, so the layout matters. */
struct named_operator {
    virtual ~named_operator() = default;
    std::shared_ptr<void> nothing;
};
} // namespace

/* Returns an object by value: the caller passes its address as the first argument. */
EXPORT void *_ZN2ge15OperatorFactory14CreateOperatorEPKcS2_(void *out, const char *name,
                                                            const char *type);
EXPORT void *_ZN2ge15OperatorFactory14CreateOperatorEPKcS2_(void *out, const char *, const char *type)
{
    _ZN2ge15OperatorFactory9IsExistOpEPKc(type);
    return new (out) named_operator;
}

EXPORT void *_ZN2ge15OperatorFactory14CreateOperatorERKSsS2_(void *out, const old_text *name,
                                                             const old_text *type);
EXPORT void *_ZN2ge15OperatorFactory14CreateOperatorERKSsS2_(void *out, const old_text *,
                                                             const old_text *type)
{
    return _ZN2ge15OperatorFactory14CreateOperatorEPKcS2_(out, "", *type);
}
