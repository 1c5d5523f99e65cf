/* The table of operators. */
#include "ops/call/registry.h"
#include "base/sized.h"

#include <string.h>

static const struct weir__op *const rows[] = {
#define ROW(name) &weir__op_##name,
    WEIR__OP_ROWS(ROW)
#undef ROW
};

const struct weir__op *weir__op_find(const char *name)
{
    for (size_t i = 0; i < weir__countof(rows); i++)
        if (!strcmp(rows[i]->name, name))
            return rows[i];
    return NULL;
}

size_t weir__op_count(void)
{
    return weir__countof(rows);
}

const struct weir__op *weir__op_at(size_t i)
{
    return i < weir__countof(rows) ? rows[i] : NULL;
}

size_t weir_op_list(weir_op_info *out, size_t size, size_t max)
{
    for (size_t i = 0; out && i < weir__countof(rows) && i < max; i++) {
        weir_op_info row = {
            .name = rows[i]->name,
            .engine = rows[i]->engine,
            .gang = rows[i]->flags & WEIR__OP_GANG,
            .data_dependent = rows[i]->flags & WEIR__OP_DATA_DEPENDENT,
            .obeys_limit = !(rows[i]->flags & WEIR__OP_IGNORES_LIMIT),
            .summary = rows[i]->summary,
        };

        weir__sized_give((char *)out + i * size, size, &row, sizeof row);
    }
    return weir__countof(rows);
}
