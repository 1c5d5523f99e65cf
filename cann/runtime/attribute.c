/* Attributes of operators called by name. Only integers and texts are kept: the operators that weir
 * runs by name use no others. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

struct attribute {
    struct attribute *next;
    char *name;
    char *text;      /* NULL for integers */
    int64_t *values; /* n integers */
    int n;
};

struct aclopAttr {
    struct attribute *first;
};

static void attribute_free(struct attribute *a)
{
    free(a->name);
    free(a->text);
    free(a->values);
    free(a);
}

EXPORT aclopAttr *aclopCreateAttr(void)
{
    struct aclopAttr *list = calloc(1, sizeof *list);
    void *handle = list ? handle_new(KIND_ATTRIBUTES, list) : NULL;

    if (!handle) {
        free(list);
        fail(ACL_ERROR_BAD_ALLOC, "attributes of an operator");
    }
    return handle;
}

EXPORT void aclopDestroyAttr(const aclopAttr *attr)
{
    struct aclopAttr *list = handle_take(attr, KIND_ATTRIBUTES);

    while (list && list->first) {
        struct attribute *a = list->first;

        list->first = a->next;
        attribute_free(a);
    }
    free(list);
}

static aclError check(const char *function, const aclopAttr *attr, const char *name)
{
    if (!handle_get(attr, KIND_ATTRIBUTES))
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

static struct attribute *find(const aclopAttr *attr, const char *name)
{
    const struct aclopAttr *list = handle_get(attr, KIND_ATTRIBUTES);
    struct attribute *a = list ? list->first : NULL;

    while (a && strcmp(a->name, name) != 0)
        a = a->next;
    return a;
}

/* Stores a copy of the text or of the values. A lookup finds the newest entry of a name first. */
static aclError keep(const char *function, const aclopAttr *attr, const char *name,
                     const char *text, int n, const int64_t *values)
{
    struct aclopAttr *list = handle_get(attr, KIND_ATTRIBUTES);
    struct attribute *a = calloc(1, sizeof *a);

    if (!a || !(a->name = strdup(name)) || (text && !(a->text = strdup(text))) ||
        (n && !(a->values = malloc((size_t)n * sizeof *values)))) {
        if (a)
            attribute_free(a);
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "attribute '%s'", name);
    }
    if (n)
        memcpy(a->values, values, (size_t)n * sizeof *values);
    a->n = n;
    a->next = list->first;
    list->first = a;
    return ACL_SUCCESS;
}

EXPORT const int64_t *weir_cann_attr_ints(const aclopAttr *attr, const char *name, int *n)
{
    const struct attribute *a = find(attr, name);

    *n = a ? a->n : 0;
    return a ? a->values : NULL;
}

EXPORT const char *weir_cann_attr_text(const aclopAttr *attr, const char *name)
{
    const struct attribute *a = find(attr, name);

    return a ? a->text : NULL;
}

EXPORT aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue)
{
    aclError err = check(__func__, attr, attrName);

    return err ? err : keep(__func__, attr, attrName, NULL, 1, &(int64_t){attrValue != 0});
}
EXPORT aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue)
{
    aclError err = check(__func__, attr, attrName);

    return err ? err : keep(__func__, attr, attrName, NULL, 1, &attrValue);
}
EXPORT aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue)
{
    (void)attrValue;
    return check(__func__, attr, attrName);
}
EXPORT aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue)
{
    aclError err;

    NEED(attrValue);
    err = check(__func__, attr, attrName);
    return err ? err : keep(__func__, attr, attrName, attrValue, 0, NULL);
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
    aclError err = check_list(__func__, attr, attrName, numValues, values);

    return err ? err : keep(__func__, attr, attrName, NULL, numValues, values);
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
