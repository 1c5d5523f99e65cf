/* The list of engines. */
#include <stdio.h>
#include <string.h>

#include "comm/procs/engine.h"

static const struct weir__engine *const engines[] = {&weir__shm_engine, &weir__mpi_engine,
                                                     &weir__nccl_engine};

const struct weir__engine *weir__engine_at(int i)
{
    return i >= 0 && i < (int)weir__countof(engines) ? engines[i] : NULL;
}

const struct weir__engine *weir__engine_find(const char *name)
{
    for (int i = 0; weir__engine_at(i); i++)
        if (!strcmp(engines[i]->name, name))
            return engines[i];
    return NULL;
}

const char *weir__engine_keep_reason(struct weir__engine_reason *why)
{
    weir__mutex_lock(&why->lock);
    if (!*why->text)
        snprintf(why->text, sizeof why->text, "%s", weir_last_error());
    weir__mutex_unlock(&why->lock);
    return why->text;
}
