/* Executors, which keep an operator's operands from the first phase to the second. */
#include "executor.h"

#include <stdlib.h>
#include <string.h>

static enum object_kind object_kind_of(char operand)
{
    switch (operand) {
    case OPERAND_S:
        return OBJECT_SCALAR;
    case OPERAND_Z:
        return OBJECT_SCALARS;
    case OPERAND_L:
    case OPERAND_M:
        return OBJECT_TENSORS;
    case OPERAND_N:
        return OBJECT_INTS;
    case OPERAND_D:
        return OBJECT_FLOATS;
    case OPERAND_A:
        return OBJECT_BOOLS;
    default:
        return OBJECT_TENSOR;
    }
}

/* If an operand is complex, sets *run to the row's form for complex numbers; false if it has
 * none. */
static bool use_complex(const struct row *row, const aclTensor *t, const aclTensor *first,
                        run_fn **run)
{
    run_fn *form;

    if ((!type_is_complex(t->type) && !type_is_complex(first->type)) || !(form = complex_run(row)))
        return false;
    *run = form;
    return true;
}

/* Checks the type of an operand. `first` is the operator's first tensor. */
static aclnnStatus check_tensor(const struct row *row, const struct operand *o, const aclTensor *t,
                                const aclTensor *first, run_fn **run)
{
    int type = computed_of_acl(t->type);

    if (row->types & TYPES_CARRIED && computed_of_acl(first->type) < 0 &&
        carrier_of_acl(first->type) >= 0) {
        if (t->type == first->type || use_complex(row, t, first, run))
            return 0;
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID,
                              "aclnn%s: %s is of type %s: weir moves %s, and does not convert it",
                              row->name, o->name, acl_type_name(t->type),
                              acl_type_name(first->type));
    }
    if (t->type == ACL_INT4 && row->types & TYPES_INT4 && t != first)
        return 0;
    if (type < 0 && use_complex(row, t, first, run))
        return 0;
    if (type < 0)
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID,
                              "aclnn%s: %s is of type %s, which weir does not compute with",
                              row->name, o->name, acl_type_name(t->type));
    if (t == first && !(row->types >> type & 1))
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "aclnn%s: %s may not be of type %s",
                              row->name, o->name, acl_type_name(t->type));
    return 0;
}

/* An operator in place cannot turn an integer tensor into floats. This is checked in the first
 * phase: torch_npu raises errors of that phase in the caller, while an error of the second phase
 * ends its queue. */
static aclnnStatus check_in_place(const struct row *row, const union arg *args)
{
    static const char *const names[] = {"InplaceAdd", "InplaceSub", "InplaceMul", "InplaceDiv"};
    int self, other;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(row->name, names[i]) != 0)
            continue;
        self = computed_of_acl(args[0].tensor->type);
        other = computed_of_acl(args[1].tensor->type);
        if (self >= 0 && other >= 0 && !(TYPES_FLOAT >> self & 1) && TYPES_FLOAT >> other & 1)
            return weir_cann_fail(
                ACLNN_ERR_PARAM_INVALID,
                "aclnn%s: result type %s can't be cast to the desired output type %s", row->name,
                acl_type_name(args[1].tensor->type), acl_type_name(args[0].tensor->type));
    }
    return 0;
}

static aclnnStatus check(const struct row *row, const union arg *args, run_fn **run)
{
    const aclTensor *first = NULL;

    *run = row->run;
    for (int i = 0; i < row->count; i++) {
        const struct operand *o = &row->operands[i];
        aclnnStatus err = 0;

        if (o->kind == OPERAND_VALUE)
            continue;
        if (!args[i].object) {
            if (o->optional)
                continue;
            return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "aclnn%s: %s is NULL", row->name,
                                  o->name);
        }
        if (o->kind == OPERAND_C)
            continue;
        if (!object_is(args[i].object, object_kind_of(o->kind)))
            return weir_cann_fail(ACLNN_ERR_PARAM_INVALID,
                                  "aclnn%s: %s (%p) is no object of the right kind", row->name,
                                  o->name, args[i].object);
        if (o->kind == OPERAND_T || o->kind == OPERAND_O || o->kind == OPERAND_X) {
            first = first ? first : args[i].tensor;
            err = check_tensor(row, o, args[i].tensor, first, run);
        } else if (o->kind == OPERAND_L || o->kind == OPERAND_M) {
            for (uint64_t k = 0; k < args[i].tensors->size && !err; k++)
                if (args[i].tensors->value[k]) {
                    first = first ? first : args[i].tensors->value[k];
                    err = check_tensor(row, o, args[i].tensors->value[k], first, run);
                }
        }
        if (err)
            return err;
    }
    return row->operands[0].kind == OPERAND_X ? check_in_place(row, args) : 0;
}

void executor_free_contents(aclOpExecutor *e)
{
    for (int i = 0; i < e->count; i++) {
        char kind = e->row->operands[i].kind;

        if (kind == OPERAND_C)
            free((void *)(uintptr_t)e->args[i].text);
        else if (kind != OPERAND_VALUE)
            object_drop(e->args[i].object);
    }
    if (e->args != e->few)
        free(e->args);
}

aclnnStatus executor_make(const struct row *row, const union arg *args, uint64_t *workspace,
                          aclOpExecutor **out)
{
    aclOpExecutor *e;
    run_fn *run;
    aclnnStatus err;

    if (!workspace || !out)
        return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "aclnn%sGetWorkspaceSize: %s is NULL",
                              row->name, workspace ? "executor" : "workspaceSize");
    *workspace = 0;
    *out = NULL;
    if ((err = check(row, args, &run)))
        return weir_cann_launched(err);
    if (!(e = object_get(OBJECT_EXECUTOR)))
        return ACLNN_ERR_INNER_NULLPTR;
    e->row = row;
    e->run = run;
    e->repeatable = false;
    e->count = 0;
    e->args = e->few;
    if (row->count > ARGS_INLINE && !(e->args = calloc((size_t)row->count, sizeof *e->args))) {
        e->args = e->few;
        goto no_memory;
    }
    for (; e->count < row->count; e->count++) {
        char kind = row->operands[e->count].kind;
        union arg a = args[e->count];

        if (kind == OPERAND_C && a.text && !(a.text = strdup(a.text)))
            goto no_memory;
        if (kind != OPERAND_C && kind != OPERAND_VALUE)
            object_keep(a.object);
        e->args[e->count] = a;
    }
    *out = e;
    return 0;

no_memory:
    object_drop(e);
    return weir_cann_fail(ACLNN_ERR_INNER_NULLPTR, "aclnn%s: out of host memory", row->name);
}

aclnnStatus executor_run(const struct row *row, aclOpExecutor *e, aclrtStream stream)
{
    aclnnStatus err;

    if (!e)
        return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "aclnn%s: the executor is NULL", row->name);
    if (!object_is(e, OBJECT_EXECUTOR) || e->row != row)
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "aclnn%s: %p is not an executor of it",
                              row->name, (void *)e);
    err = call_run(row, e->run, e->args, stream);
    if (!e->repeatable)
        object_drop(e);
    return err ? weir_cann_launched(err) : 0;
}

/* ---- repeatable executors ---- */

static aclnnStatus check_executor(const aclOpExecutor *e)
{
    if (!e)
        return weir_cann_fail(ACLNN_ERR_PARAM_NULLPTR, "the executor is NULL");
    if (!object_is(e, OBJECT_EXECUTOR))
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "%p is not an executor", (const void *)e);
    return 0;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor)
{
    aclnnStatus err = check_executor(executor);

    if (!err)
        executor->repeatable = true;
    return err;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    aclnnStatus err = check_executor(executor);

    if (!err)
        object_drop(executor);
    return err;
}

/* The tensors that an index refers to. */
enum which { WHICH_ALL, WHICH_READ, WHICH_WRITTEN };

static bool counts(char kind, enum which which)
{
    bool list = kind == OPERAND_L || kind == OPERAND_M;
    bool one = kind == OPERAND_T || kind == OPERAND_X || kind == OPERAND_O;
    bool written = kind == OPERAND_O || kind == OPERAND_M;

    if (!one && !list)
        return false;
    return which == WHICH_ALL || (which == WHICH_WRITTEN) == written;
}

/* Returns the operand of that index, or -1. */
static int find(const aclOpExecutor *e, size_t index, enum which which)
{
    for (int i = 0; i < e->count; i++)
        if (counts(e->row->operands[i].kind, which) && index-- == 0)
            return i;
    return -1;
}

static aclnnStatus set_address(aclOpExecutor *e, size_t index, aclTensor *t, void *address,
                               enum which which)
{
    aclnnStatus err = check_executor(e);
    int i;

    if (err)
        return err;
    i = find(e, index, which);
    if (i < 0 || !e->args[i].object || object_kind_of(e->row->operands[i].kind) != OBJECT_TENSOR)
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "aclnn%s has no tensor %zu", e->row->name,
                              index);
    if (t && !object_is(t, OBJECT_TENSOR))
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "%p is not an aclTensor", (void *)t);
    if (t && t != e->args[i].tensor) {
        object_keep(t);
        object_drop(e->args[i].tensor);
        e->args[i].tensor = t;
    }
    ((aclTensor *)(uintptr_t)e->args[i].tensor)->data = address;
    return 0;
}

static aclnnStatus set_list_address(aclOpExecutor *e, size_t index, size_t relative, void *address,
                                    enum which which)
{
    aclnnStatus err = check_executor(e);
    const aclTensorList *list;
    int i;

    if (err)
        return err;
    i = find(e, index, which);
    if (i < 0 || !e->args[i].object || object_kind_of(e->row->operands[i].kind) != OBJECT_TENSORS)
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "aclnn%s has no tensor list %zu",
                              e->row->name, index);
    list = e->args[i].tensors;
    if (relative >= list->size || !list->value[relative])
        return weir_cann_fail(ACLNN_ERR_PARAM_INVALID, "aclnn%s: %s has no tensor %zu",
                              e->row->name, e->row->operands[i].name, relative);
    list->value[relative]->data = address;
    return 0;
}

aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                             void *addr)
{
    return set_address(executor, index, tensor, addr, WHICH_ALL);
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                  void *addr)
{
    return set_address(executor, index, tensor, addr, WHICH_READ);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor,
                                   void *addr)
{
    return set_address(executor, index, tensor, addr, WHICH_WRITTEN);
}

aclnnStatus aclSetDynamicTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                    const size_t relativeIndex, aclTensorList *tensors, void *addr)
{
    (void)tensors;
    return set_list_address(executor, irIndex, relativeIndex, addr, WHICH_ALL);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                         const size_t relativeIndex, aclTensorList *tensors,
                                         void *addr)
{
    (void)tensors;
    return set_list_address(executor, irIndex, relativeIndex, addr, WHICH_READ);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex,
                                          const size_t relativeIndex, aclTensorList *tensors,
                                          void *addr)
{
    (void)tensors;
    return set_list_address(executor, irIndex, relativeIndex, addr, WHICH_WRITTEN);
}
