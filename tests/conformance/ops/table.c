/* The suite covers exactly the operators that the library lists. */
#include "conformance/conformance.h"

#include "conformance/ops/opcases.h"

#include <ctype.h>

/* "LayerNorm" and "layer_norm" are one name. */
static bool same_name(const char *listed, const char *known)
{
    while (*listed || *known) {
        if (*known == '_')
            known++;
        else if (tolower((unsigned char)*listed++) != *known++)
            return false;
    }
    return true;
}

static bool is_known(const char *listed)
{
    static const char *const names[] = {
#define NAME(name) #name,
        OP_CASES(NAME)
#undef NAME
        /* rows that public functions call by another name, and those of graphs alone */
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "kernel",
        "record",
        "wait",
        "host_call",
        "host_call2",
        "host_call3",
        "host_call4",
        /* between devices: tests/comm */
        "all_reduce",
        "reduce_scatter",
        "all_gather",
        "broadcast",
        "all_to_all",
        "all_to_all_counts",
        "all_to_all_table",
        "send",
        "recv",
        "barrier",
        "moe_dispatch",
        "moe_combine",
    };

    for (size_t i = 0; i < countof(names); i++)
        if (same_name(listed, names[i]))
            return true;
    return false;
}

CONFORMANCE(table, every_listed_operator_has_a_case)
{
    weir_op_info ops[200];
    size_t n = weir_op_list(ops, sizeof *ops, countof(ops));

    (void)dev;
    CHECK_GT(n, 40);
    CHECK_LE(n, countof(ops));
    for (size_t i = 0; i < n; i++) {
        test_note("%s", ops[i].name);
        CHECK(is_known(ops[i].name));
        CHECK(ops[i].summary[0]);
        CHECK(weir_engine_name(ops[i].engine)[0]);
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(ops[i].name, ops[j].name));
    }
    CHECK_EQ(weir_op_list(NULL, 0, 0), n);
}
