/* Operators called by name, which is the interface before aclnn, and the options of their compiler.
 * weir implements a copy (Identity) here, and some operators in libopapi by its aclnn operators
 * (opapi/named.c). torch_npu calls an operator by name when libopapi lacks it; the error names that
 * operator. */
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS = 64 };

static char *options[OPTIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT aclError aclopSetModelDir(const char *modelDir)
{
    NEED(modelDir);
    return FAIL(ACL_ERROR_API_NOT_SUPPORT, "offline models in %s cannot be run", modelDir);
}

EXPORT aclError aclopSetCompileFlag(aclOpCompileFlag flag)
{
    if ((unsigned)flag > ACL_OP_COMPILE_FUZZ)
        return FAIL(ACL_ERROR_INVALID_PARAM, "flag %d is neither 0 nor 1", (int)flag);
    return ACL_SUCCESS;
}

static aclError missing(const char *function, const char *name)
{
    if (!name)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "opType is NULL");
    return weir_cann_fail_in(function, ACL_ERROR_OP_NOT_FOUND,
                             "weir has no operator '%s': no aclnn call of libopapi serves this "
                             "use of it (weir cann ops lists them)",
                             name);
}

/* True for formats that store elements in row-major order of the shape. */
static bool is_plain(aclFormat format)
{
    return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCDHW ||
           format == ACL_FORMAT_NCL || format == ACL_FORMAT_NC;
}

/* A copy, by which torch_npu changes the name of a tensor's format. */
static aclError identity(const char *function, int inputs, const aclTensorDesc *from,
                         const aclDataBuffer *source, int outputs, const aclTensorDesc *to,
                         const aclDataBuffer *target, aclrtStream stream)
{
    size_t bytes;

    if (inputs != 1 || outputs != 1)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                                 "Identity has %d inputs and %d outputs, not 1 and 1", inputs,
                                 outputs);
    if (!is_plain(aclGetTensorDescFormat(from)) || !is_plain(aclGetTensorDescFormat(to)))
        return weir_cann_fail_in(function, ACL_ERROR_FORMAT_NOT_MATCH,
                                 "Identity from format %d to %d: weir moves no elements into an "
                                 "NPU's own formats",
                                 (int)aclGetTensorDescFormat(from),
                                 (int)aclGetTensorDescFormat(to));
    bytes = aclGetTensorDescSize(from);
    if (bytes != aclGetTensorDescSize(to) || aclGetTensorDescType(from) != aclGetTensorDescType(to))
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                                 "Identity of %zu bytes of type %d to %zu of type %d", bytes,
                                 (int)aclGetTensorDescType(from), aclGetTensorDescSize(to),
                                 (int)aclGetTensorDescType(to));
    if (bytes > aclGetDataBufferSizeV2(source) || bytes > aclGetDataBufferSizeV2(target))
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM,
                                 "Identity of %zu bytes: the buffers have %zu and %zu", bytes,
                                 aclGetDataBufferSizeV2(source), aclGetDataBufferSizeV2(target));
    if (!bytes)
        return ACL_SUCCESS; /* the address may be NULL */
    return aclrtMemcpyAsync(aclGetDataBufferAddr(target), bytes, aclGetDataBufferAddr(source),
                            bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
}

/* ---- operators in libopapi, which depends on this library and so is looked up at run time ---- */

static weir_cann_named_fn serve;
static bool (*serves)(const char *name);

static void find_opapi(void)
{
    void *library = dlopen("libopapi.so", RTLD_NOW | RTLD_LOCAL), *symbol;

    if (!library)
        return;
    symbol = dlsym(library, "weir_cann_serve_named");
    memcpy(&serve, &symbol, sizeof symbol);
    symbol = dlsym(library, "weir_cann_serves_named");
    memcpy(&serves, &symbol, sizeof symbol);
}

EXPORT bool weir_cann_has_named(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_opapi);
    return name && (!strcmp(name, "Identity") || (serve && serves && serves(name)));
}

static aclError run_named(const char *function, const struct weir_cann_named *op)
{
    if (!weir_cann_has_named(op->name))
        return weir_cann_launched(missing(function, op->name));
    if (op->inputs < 1 || op->outputs < 1 || !op->from || !op->sources || !op->to || !op->targets)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "%s without operands",
                                 op->name);
    if (strcmp(op->name, "Identity") != 0)
        return weir_cann_launched(serve(op));
    return identity(function, op->inputs, op->from[0], op->sources[0], op->outputs, op->to[0],
                    op->targets[0], op->stream);
}

EXPORT aclError aclopCompileAndExecute(const char *opType, int numInputs,
                                       const aclTensorDesc *const inputDesc[],
                                       const aclDataBuffer *const inputs[], int numOutputs,
                                       const aclTensorDesc *const outputDesc[],
                                       aclDataBuffer *const outputs[], const aclopAttr *attr,
                                       aclopEngineType engineType, aclopCompileType compileFlag,
                                       const char *opPath, aclrtStream stream)
{
    struct weir_cann_named op = {opType,
                                 numInputs,
                                 numOutputs,
                                 inputDesc,
                                 inputs,
                                 outputDesc,
                                 (const aclDataBuffer *const *)outputs,
                                 attr,
                                 stream};

    (void)engineType, (void)compileFlag, (void)opPath;
    return run_named(__func__, &op);
}

EXPORT aclError aclopCompileAndExecuteV2(const char *opType, int numInputs,
                                         aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
                                         int numOutputs, aclTensorDesc *outputDesc[],
                                         aclDataBuffer *outputs[], aclopAttr *attr,
                                         aclopEngineType engineType, aclopCompileType compileFlag,
                                         const char *opPath, aclrtStream stream)
{
    struct weir_cann_named op = {opType,
                                 numInputs,
                                 numOutputs,
                                 (const aclTensorDesc *const *)inputDesc,
                                 (const aclDataBuffer *const *)inputs,
                                 (const aclTensorDesc *const *)outputDesc,
                                 (const aclDataBuffer *const *)outputs,
                                 attr,
                                 stream};

    (void)engineType, (void)compileFlag, (void)opPath;
    return run_named(__func__, &op);
}

/* ---- options: stored, without any effect ---- */

EXPORT aclError aclSetCompileopt(aclCompileOpt opt, const char *value)
{
    char *copy;

    NEED(value);
    if ((unsigned)opt >= OPTIONS)
        return FAIL(ACL_ERROR_INVALID_PARAM, "option %d is not known", (int)opt);
    if (!(copy = strdup(value)))
        return FAIL(ACL_ERROR_BAD_ALLOC, "option %d", (int)opt);
    pthread_mutex_lock(&lock);
    free(options[opt]);
    options[opt] = copy;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

/* An option that was never set is "disable": weir implements none of them. */
EXPORT size_t aclGetCompileoptSize(aclCompileOpt opt)
{
    size_t n = sizeof "disable";

    pthread_mutex_lock(&lock);
    if ((unsigned)opt < OPTIONS && options[opt])
        n = strlen(options[opt]) + 1;
    pthread_mutex_unlock(&lock);
    return n;
}

EXPORT aclError aclGetCompileopt(aclCompileOpt opt, char *value, size_t length)
{
    aclError err = ACL_SUCCESS;
    const char *text;

    NEED(value);
    if ((unsigned)opt >= OPTIONS)
        return FAIL(ACL_ERROR_INVALID_PARAM, "option %d is not known", (int)opt);
    pthread_mutex_lock(&lock);
    text = options[opt] ? options[opt] : "disable";
    if (strlen(text) >= length)
        err = FAIL(ACL_ERROR_INVALID_PARAM, "option %d has %zu bytes, there is room for %zu",
                   (int)opt, strlen(text) + 1, length);
    else
        strcpy(value, text);
    pthread_mutex_unlock(&lock);
    return err;
}
