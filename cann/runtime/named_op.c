/* Operators by name, of before aclnn, and their compiler's options. Of the former weir has a copy
 * alone: torch_npu comes here when libopapi lacks an operator, and is told which. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

enum { OPTIONS = 64 };

static char *options[OPTIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Attributes of what will not run need not be kept. */
EXPORT aclopAttr *aclopCreateAttr(void)
{
    void *handle = handle_new(KIND_OTHER, &options);

    if (!handle)
        fail(ACL_ERROR_BAD_ALLOC, "attributes of an operator");
    return handle;
}

EXPORT void aclopDestroyAttr(const aclopAttr *attr)
{
    handle_take(attr, KIND_OTHER);
}

static aclError check(const char *function, const aclopAttr *attr, const char *name)
{
    if (!handle_get(attr, KIND_OTHER))
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "%p is not an attribute list",
                                 (const void *)attr);
    if (!name)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "attrName is NULL");
    return ACL_SUCCESS;
}

static aclError check_list(const char *function, const aclopAttr *attr, const char *name, int n,
                           const void *values)
{
    if (n < 0 || (n && !values))
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "%d values at %p", n, values);
    return check(function, attr, name);
}

EXPORT aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue)
{
    (void)attrValue;
    return check(__func__, attr, attrName);
}
EXPORT aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue)
{
    (void)attrValue;
    return check(__func__, attr, attrName);
}
EXPORT aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue)
{
    (void)attrValue;
    return check(__func__, attr, attrName);
}
EXPORT aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue)
{
    NEED(attrValue);
    return check(__func__, attr, attrName);
}
EXPORT aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue)
{
    (void)attrValue;
    return check(__func__, attr, attrName);
}
EXPORT aclError aclopSetAttrListBool(aclopAttr *attr, const char *attrName, int numValues,
                                     const uint8_t *values)
{
    return check_list(__func__, attr, attrName, numValues, values);
}
EXPORT aclError aclopSetAttrListInt(aclopAttr *attr, const char *attrName, int numValues,
                                    const int64_t *values)
{
    return check_list(__func__, attr, attrName, numValues, values);
}
EXPORT aclError aclopSetAttrListFloat(aclopAttr *attr, const char *attrName, int numValues,
                                      const float *values)
{
    return check_list(__func__, attr, attrName, numValues, values);
}
EXPORT aclError aclopSetAttrListString(aclopAttr *attr, const char *attrName, int numValues,
                                       const char **values)
{
    return check_list(__func__, attr, attrName, numValues, values);
}
EXPORT aclError aclopSetAttrListDataType(aclopAttr *attr, const char *attrName, int numValues,
                                         const aclDataType values[])
{
    return check_list(__func__, attr, attrName, numValues, values);
}
EXPORT aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists,
                                        const int *numValues, const int64_t *const values[])
{
    (void)values;
    return check_list(__func__, attr, attrName, numLists, numValues);
}

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

/* Formats in which elements lie as their shape says, outermost dim first; the others move them. */
static bool is_plain(aclFormat format)
{
    return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCDHW ||
           format == ACL_FORMAT_NCL || format == ACL_FORMAT_NC;
}

/* The one operator that libopapi has no name for: a copy, where torch_npu changes what a tensor's
 * format is called. */
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
        return ACL_SUCCESS; /* there need not be an address */
    return aclrtMemcpyAsync(aclGetDataBufferAddr(target), bytes, aclGetDataBufferAddr(source),
                            bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
}

static aclError run_named(const char *function, const char *name, int inputs,
                          const aclTensorDesc *const *from, const aclDataBuffer *const *sources,
                          int outputs, const aclTensorDesc *const *to,
                          const aclDataBuffer *const *targets, aclrtStream stream)
{
    if (!name || strcmp(name, "Identity") != 0)
        return weir_cann_launched(missing(function, name));
    if (inputs < 1 || outputs < 1 || !from || !sources || !to || !targets)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "Identity without operands");
    return identity(function, inputs, from[0], sources[0], outputs, to[0], targets[0], stream);
}

EXPORT aclError aclopCompileAndExecute(const char *opType, int numInputs,
                                       const aclTensorDesc *const inputDesc[],
                                       const aclDataBuffer *const inputs[], int numOutputs,
                                       const aclTensorDesc *const outputDesc[],
                                       aclDataBuffer *const outputs[], const aclopAttr *attr,
                                       aclopEngineType engineType, aclopCompileType compileFlag,
                                       const char *opPath, aclrtStream stream)
{
    (void)attr, (void)engineType, (void)compileFlag, (void)opPath;
    return run_named(__func__, opType, numInputs, inputDesc, inputs, numOutputs, outputDesc,
                     (const aclDataBuffer *const *)outputs, stream);
}

EXPORT aclError aclopCompileAndExecuteV2(const char *opType, int numInputs,
                                         aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
                                         int numOutputs, aclTensorDesc *outputDesc[],
                                         aclDataBuffer *outputs[], aclopAttr *attr,
                                         aclopEngineType engineType, aclopCompileType compileFlag,
                                         const char *opPath, aclrtStream stream)
{
    (void)attr, (void)engineType, (void)compileFlag, (void)opPath;
    return run_named(__func__, opType, numInputs, (const aclTensorDesc *const *)inputDesc,
                     (const aclDataBuffer *const *)inputs, numOutputs,
                     (const aclTensorDesc *const *)outputDesc,
                     (const aclDataBuffer *const *)outputs, stream);
}

/* ---- options: kept and given back ---- */

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

/* What was never set is "disable", which is what weir does of anything there is. */
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
