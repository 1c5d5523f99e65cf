/* Inputs of nodes: the operands they read and the nodes they run after. */
#include <string.h>

#include "graph/file/pbtxt_load.h"
#include "graph/file/pbtxt_write.h"

/* ---- operands ---- */

weir_status weir__pb_operand(const struct weir__pb_loader *l, const struct weir__pb_ref *ref,
                             struct weir__operand *out)
{
    const struct weir__pb_node *to = &l->file.nodes[ref->node];
    const struct weir__pb_made *m = &l->made[ref->node];
    const struct weir__operand *writes = m->operand;
    int nwrites = m->kind == WEIR__PB_MADE_OPERAND;

    if (m->kind == WEIR__PB_MADE_NODE)
        writes = weir__node_writes(&l->g->nodes[m->node], &nwrites);
    if (ref->index >= nwrites)
        return weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at,
                             "'%.80s' has no output %d: %s has %d", to->name, ref->index, to->op,
                             nwrites);
    *out = writes[ref->index];
    return WEIR_OK;
}

static bool may_be_token(const struct weir__pb_file *f, const struct weir__pb_node *n,
                         const struct weir__pb_ref *ref)
{
    return ref->kind == WEIR__PB_DATA && ref->node >= 0 && !ref->index &&
           !strcmp(n->op, "Kernel") && !strcmp(f->nodes[ref->node].op, "Kernel");
}

bool weir__pb_is_token(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                       const struct weir__pb_ref *ref)
{
    return may_be_token(&l->file, n, ref) && !l->read[ref->node];
}

weir_status weir__pb_find_read(struct weir__pb_loader *l)
{
    const struct weir__pb_file *f = &l->file;

    if (!(l->read = weir__calloc((size_t)f->nnodes + 1, sizeof *l->read)))
        return weir__fail_nomem("%s: allocating %d nodes", f->text.where, f->nnodes);
    for (int i = 0; i < f->nnodes; i++)
        for (int k = f->nodes[i].refs; k < f->nodes[i].refs + f->nodes[i].nrefs; k++)
            if (f->refs[k].node >= 0 && f->refs[k].kind != WEIR__PB_CONTROL &&
                !may_be_token(f, &f->nodes[i], &f->refs[k]))
                l->read[f->refs[k].node] = true;
    return WEIR_OK;
}

weir_status weir__pb_operands(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                              bool into, struct weir__operand *out, int *count)
{
    int max = *count;
    weir_status st;

    *count = 0;
    for (int i = n->refs; i < n->refs + n->nrefs; i++) {
        const struct weir__pb_ref *ref = &l->file.refs[i];

        if (ref->kind == WEIR__PB_CONTROL || (ref->kind == WEIR__PB_INTO) != into ||
            weir__pb_is_token(l, n, ref))
            continue;
        if (*count == max)
            return weir__pb_fail(&l->file.text, WEIR_EINVAL, ref->at,
                                 "node '%.80s' has more than %d %s", n->name, max,
                                 into ? "outputs" : "inputs");
        if (ref->kind == WEIR__PB_ABSENT)
            out[*count] = (struct weir__operand){.value = WEIR__NO_VALUE};
        else if ((st = weir__pb_operand(l, ref, &out[*count])))
            return st;
        ++*count;
    }
    return WEIR_OK;
}

/* ---- nodes to run after ---- */

static weir_status append_wait(struct weir__pb_loader *l, int node)
{
    if (l->nwaits == l->cap_waits) {
        int cap = l->cap_waits ? 2 * l->cap_waits : 256;
        int *fresh = cap > 1 << 24 ? NULL : weir__malloc((size_t)cap * sizeof *fresh);

        if (!fresh)
            return weir__fail_nomem("%s: allocating %d control edges", l->file.text.where, cap);
        if (l->nwaits)
            memcpy(fresh, l->waits, (size_t)l->nwaits * sizeof *fresh);
        weir__free(l->waits);
        l->waits = fresh;
        l->cap_waits = cap;
    }
    l->waits[l->nwaits++] = node;
    return WEIR_OK;
}

static weir_status add_wait(struct weir__pb_loader *l, int node)
{
    if (node < 0 || l->stamp[node] == l->list)
        return WEIR_OK;
    l->stamp[node] = l->list;
    return append_wait(l, node);
}

weir_status weir__pb_collect_waits(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                   int *ntokens)
{
    weir_status st = WEIR_OK;
    int first = l->nwaits;

    l->list++;
    for (int i = n->refs; i < n->refs + n->nrefs && !st; i++)
        if (weir__pb_is_token(l, n, &l->file.refs[i]))
            st = append_wait(l, l->made[l->file.refs[i].node].node);
    *ntokens = l->nwaits - first;
    for (int i = n->refs; i < n->refs + n->nrefs && !st; i++) {
        const struct weir__pb_ref *ref = &l->file.refs[i];
        const struct weir__pb_made *m = ref->node < 0 ? NULL : &l->made[ref->node];

        if (!m)
            continue;
        if (ref->kind == WEIR__PB_CONTROL && m->kind == WEIR__PB_MADE_NODE)
            st = add_wait(l, m->node);
        else if (ref->kind == WEIR__PB_CONTROL && m->kind == WEIR__PB_MADE_OPERAND)
            st = add_wait(l, l->g->values[m->operand->value].last_writer);
        for (int j = 0; j < m->nwaits && !st; j++)
            st = add_wait(l, l->waits[m->waits + j]);
    }
    return st;
}

/* ---- views ---- */

/* Checks that the view's elements, from `offset` elements on, lie within the whole value. */
static weir_status check_view(const struct weir__pb_loader *l, const struct weir__pb_node *n,
                              const struct weir__view *v, int64_t offset,
                              const struct weir__value *value)
{
    int64_t last = offset, step, numel = weir__view_numel(&value->view);

    for (int d = 0; d < v->ndim; d++) {
        if (v->shape[d] < 0 || v->stride[d] < 0)
            return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                      "size %lld and stride %lld of dim %d must not be negative",
                                      (long long)v->shape[d], (long long)v->stride[d], d);
        if (v->shape[d] && (__builtin_mul_overflow(v->shape[d] - 1, v->stride[d], &step) ||
                            __builtin_add_overflow(last, step, &last)))
            last = numel;
    }
    for (int d = 0; d < v->ndim; d++)
        if (!v->shape[d])
            last = offset - 1; /* no elements: only the offset must be in range */
    if (offset < 0 || offset > numel || last >= numel)
        return weir__pb_fail_node(
            &l->file, WEIR_EINVAL, n, "the view %s reaches beyond the %lld elements of %s",
            weir__view_text(v).text, (long long)numel, weir__view_text(&value->view).text);
    return WEIR_OK;
}

weir_status weir__pb_step(struct weir__pb_loader *l, struct weir__operand *o,
                          const struct weir__view_step *step)
{
    struct weir__recipe *recipe;
    weir_status st = weir__view_apply_step(&o->view, step, NULL);

    if (st || !l->g->dynamic)
        return st;
    if ((st = weir__recipe_make(o->recipe, step, &recipe)))
        return st;
    st = weir__graph_hold_recipe(l->g, recipe);
    weir__recipe_release(recipe);
    o->recipe = recipe;
    return st;
}

/* Loads a View given as slice, permute, reshape or expand. *found is false if it is none of
 * these. */
static weir_status load_step(struct weir__pb_loader *l, const struct weir__pb_node *n,
                             struct weir__operand *o, bool *found)
{
    weir_status st;

    *found = false;
    for (int k = WEIR__VIEW_SLICE; k <= WEIR__VIEW_EXPAND; k++) {
        struct weir__view_step step = {.kind = (enum weir__view_kind)k};
        const char *key = weir__pb_view_key(step.kind);

        if ((st = weir__pb_attr_ints(&l->file, n, key, step.args, WEIR_MAX_DIMS, &step.n)))
            return st;
        if (step.n < 0)
            continue;
        if (*found || weir__pb_attr_find(&l->file, n, "shape"))
            return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                      "View takes one of slice, permute, reshape, expand or shape, "
                                      "not also %s",
                                      key);
        if (k == WEIR__VIEW_SLICE && step.n != 4)
            return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                      "slice is dim, start, stop and step, not %d numbers", step.n);
        *found = true;
        if ((st = weir__pb_step(l, o, &step)))
            return weir__pb_at_node(&l->file, n, st);
    }
    return WEIR_OK;
}

static weir_status load_view(struct weir__pb_loader *l, const struct weir__pb_node *n,
                             struct weir__operand *o)
{
    int64_t size = (int64_t)weir_dtype_size(o->view.dtype), offset = 0, strides[WEIR_MAX_DIMS];
    int64_t shape[WEIR_MAX_DIMS];
    struct weir__view v = o->view;
    int ndim, nstrides;
    bool found;
    weir_status st;

    if ((st = load_step(l, n, o, &found)) || found)
        return st;
    if ((st = weir__pb_attr_int(&l->file, n, "offset", &offset)) ||
        (st = weir__pb_attr_ints(&l->file, n, "shape", shape, WEIR_MAX_DIMS, &ndim)) ||
        (st = weir__pb_attr_ints(&l->file, n, "strides", strides, WEIR_MAX_DIMS, &nstrides)))
        return st;
    if (ndim < 0)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%s has no attribute 'shape'", n->op);
    if (nstrides >= 0 && nstrides != ndim)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%d sizes but %d strides", ndim,
                                  nstrides);
    if ((st = weir__view_init(&v, v.dtype, ndim, shape)))
        return weir__pb_at_node(&l->file, n, st);
    if (nstrides > 0)
        memcpy(v.stride, strides, (size_t)nstrides * sizeof *strides);
    /* Offsets count from the start of the input's own view. */
    if (__builtin_add_overflow(offset, (int64_t)(intptr_t)o->view.data / size, &offset))
        offset = -1;
    if ((st = check_view(l, n, &v, offset, &l->g->values[o->value])))
        return st;
    v.data = (char *)(intptr_t)(offset * size);
    o->view = v;
    o->recipe = NULL;
    return WEIR_OK;
}

weir_status weir__pb_load_alias(struct weir__pb_loader *l, const struct weir__pb_node *n,
                                struct weir__pb_made *m)
{
    int count = 1, ntokens;
    weir_status st;

    if ((st = weir__pb_operands(l, n, false, m->operand, &count)))
        return st;
    if (!count || m->operand->value == WEIR__NO_VALUE)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n, "%s needs an input", n->op);
    if (!strcmp(n->op, "View") && (st = load_view(l, n, m->operand)))
        return st;
    m->waits = l->nwaits;
    if ((st = weir__pb_collect_waits(l, n, &ntokens)))
        return st;
    m->nwaits = l->nwaits - m->waits;
    if (m->nwaits > WEIR__PB_MAX_WAITS)
        return weir__pb_fail_node(&l->file, WEIR_EINVAL, n,
                                  "%s hands on more than %d control edges", n->op,
                                  WEIR__PB_MAX_WAITS);
    m->kind = WEIR__PB_MADE_OPERAND;
    return WEIR_OK;
}
