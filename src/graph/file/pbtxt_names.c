/* Unique names for the nodes of a dumped file. The same graph always gets the same names, and a
 * loaded graph gets the names of its file. */
#include "graph/file/pbtxt_names.h"

#include <stdio.h>
#include <string.h>

static char **find(char **slots, size_t mask, const char *name)
{
    uint64_t h = 1;

    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
    while (slots[h & mask] && strcmp(slots[h & mask], name))
        h++;
    return &slots[h & mask];
}

static bool make_room(struct weir__pb_names *names)
{
    size_t size = names->slots ? 2 * (names->mask + 1) : 64;
    char **slots;

    if (names->slots && 2 * names->count <= names->mask)
        return true;
    if (!(slots = weir__calloc(size, sizeof *slots)))
        return false;
    for (size_t i = 0; names->slots && i <= names->mask; i++)
        if (names->slots[i])
            *find(slots, size - 1, names->slots[i]) = names->slots[i];
    weir__free(names->slots);
    names->slots = slots;
    names->mask = size - 1;
    return true;
}

char *weir__pb_names_add(struct weir__pb_names *names, const char *name)
{
    bool control = *name == '^'; /* a leading '^' would mark a control input */
    size_t size = strlen(name) + 24;
    char *fresh = weir__malloc(size), **slot;

    if (!fresh || !make_room(names)) {
        weir__free(fresh);
        names->failed = true;
        return NULL;
    }
    snprintf(fresh, size, "%s%s", control ? "_" : "", name);
    slot = find(names->slots, names->mask, fresh);
    for (int i = 2; *slot; i++) {
        snprintf(fresh, size, "%s%s_%d", control ? "_" : "", name, i);
        slot = find(names->slots, names->mask, fresh);
    }
    *slot = fresh;
    names->count++;
    return fresh;
}

static void name_values(struct weir__pb_names *names, const weir_graph *g)
{
    char generated[32];
    int nconstants = 0;

    for (int i = 0; i < g->ninputs; i++)
        names->values[g->inputs[i]] = weir__pb_names_add(names, g->values[g->inputs[i]].name);
    for (int i = 0; i < g->nconstants; i++) {
        const char *name = g->values[g->constants[i]].name;

        snprintf(generated, sizeof generated, "const_%d", nconstants++);
        names->values[g->constants[i]] = weir__pb_names_add(names, name ? name : generated);
    }
}

void weir__pb_names_init(struct weir__pb_names *names, const weir_graph *g)
{
    *names = (struct weir__pb_names){
        .nodes = weir__calloc((size_t)g->nnodes + 1, sizeof *names->nodes),
        .values = weir__calloc((size_t)g->nvalues + 1, sizeof *names->values),
        .index = weir__calloc((size_t)g->nvalues + 1, sizeof *names->index),
    };
    if (!names->nodes || !names->values || !names->index) {
        names->failed = true;
        return;
    }
    for (int i = 0; i < g->nnodes; i++) {
        names->nodes[i] = weir__pb_names_add(names, g->nodes[i].name);
        for (int k = 0; k < g->nodes[i].nout; k++)
            if (g->values[g->nodes[i].out[k].value].node == i)
                names->index[g->nodes[i].out[k].value] = k;
    }
    name_values(names, g);
    names->outputs = weir__pb_names_add(names, "NetOutput");
}

void weir__pb_names_fini(struct weir__pb_names *names)
{
    for (size_t i = 0; names->slots && i <= names->mask; i++)
        weir__free(names->slots[i]);
    weir__free(names->slots);
    weir__free(names->nodes);
    weir__free(names->values);
    weir__free(names->index);
}
