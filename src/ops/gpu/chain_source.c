/* Writes the source of a chain: operands, steps and stores, as arguments of the templates of
 * kernels/chain.cuh. */
#include "base/base.h"
#include "ops/gpu/chain.h"

/* Writes "<layout, n, type, ndim, dim, stride>", the template arguments of get and put. */
static void add_place(struct weir__text *text, const struct weir__chain *c,
                      const struct weir__chain_form *form, int operand)
{
    const struct weir__chain_operand *o = &c->operand[operand];

    weir__text_add(text, "<%d, n, %d, %d, %d, %d>", form->layout[operand], o->type, o->ndim, o->dim,
                   o->stride);
}

static bool is_read(const struct weir__chain *c, int operand)
{
    for (int s = 0; s < c->nsteps; s++)
        for (int i = 0; i < c->step[s].nin; i++)
            if (c->step[s].in[i] == operand)
                return true;
    return false;
}

static void add_input(struct weir__text *text, const struct weir__chain_step *step, int i)
{
    int8_t in = step->in[i];

    if (i >= step->nin || in == WEIR__CHAIN_CONSTANT)
        weir__text_add(text, "nullptr, ");
    else if (in >= 0)
        weir__text_add(text, "m%d.v + k, ", in);
    else
        weir__text_add(text, "r%d.v + k, ", WEIR__CHAIN_RESULT(in));
}

static void add_step(struct weir__text *text, const struct weir__chain *c, int s)
{
    const struct weir__chain_step *step = &c->step[s];
    unsigned constants = 0;

    for (int i = 0; i < step->nin; i++)
        constants |= step->in[i] == WEIR__CHAIN_CONSTANT ? 1u << i : 0;
    weir__text_add(text, "        apply_some<w, %d, %d, %d, %d, %d, %u>(r%d.v + k, ", step->code,
                   step->out_type, step->in_type[0], step->in_type[1], step->in_type[2], constants,
                   s);
    for (int i = 0; i < WEIR__EW_MAX_IN; i++)
        add_input(text, step, i);
    weir__text_add(text, "c.constant[%d]);\n", s);
}

void weir__chain_write_steps(const struct weir__chain *c, const struct weir__chain_form *form,
                             struct weir__text *text)
{
    for (int i = 0; i < c->noperands; i++)
        if (is_read(c, i)) {
            weir__text_add(text, "    auto m%d = get", i);
            add_place(text, c, form, i);
            weir__text_add(text, "(c, %d, i);\n", i);
        }
    for (int s = 0; s < c->nsteps; s++)
        weir__text_add(text, "    Pack<Type<%d>::store, n> r%d;\n", c->step[s].out_type, s);
    weir__text_add(text, "    constexpr int w = n %% 2 ? 1 : 2;\n"
                         "#pragma unroll\n    for (int k = 0; k < n; k += w) {\n");
    for (int s = 0; s < c->nsteps; s++)
        add_step(text, c, s);
    weir__text_add(text, "    }\n");
    for (int s = 0; s < c->nsteps; s++)
        if (c->step[s].out != WEIR__CHAIN_NOWHERE) {
            weir__text_add(text, "    put");
            add_place(text, c, form, c->step[s].out);
            weir__text_add(text, "(c, %d, i, r%d);\n", c->step[s].out, s);
        }
}

void weir__chain_write(const void *chain, struct weir__text *text)
{
    const struct weir__chain *c = chain;
    struct weir__chain_form form;

    weir__chain_find_form(c, &form);
    weir__text_add(text, "#include \"chain.cuh\"\n\n"
                         "template <int n> static __device__ inline void "
                         "run(const weir__chain &c, int64_t i)\n{\n");
    weir__chain_write_steps(c, &form, text);
    weir__text_add(text,
                   "}\n\nextern \"C\" __global__ void "
                   "chain(const __grid_constant__ weir__chain c)\n{\n"
                   "    await_earlier();\n"
                   "    for (int64_t p = thread_index(); p < c.numel / %d; p += thread_count())\n"
                   "        run<%d>(c, p * %d);\n"
                   "    for (int64_t i = c.numel / %d * %d + thread_index(); i < c.numel; "
                   "i += thread_count())\n"
                   "        run<1>(c, i);\n}\n",
                   form.pack, form.pack, form.pack, form.pack, form.pack);
}
