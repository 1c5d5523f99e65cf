/* Super kernels: operators of one scope that run as one launch.
 *
 * Neighbours on a stream with the same mark are fused while the later one waits for no
 * other stream: the launch starts when its first operator may, and ends with its last. An operator
 * that cannot be fused (a gang, or one of the host engine) splits the scope, or is an error under
 * strict-scope-check=abort.
 */
#include "graph/pass/compile.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PHASES = 255 };

static bool has_option(const struct weir__super_kernel *k, const char *option)
{
    const char *at = strstr(k->options, option);
    size_t size = strlen(option);

    return at && (at == k->options || at[-1] == ':') && (!at[size] || at[size] == ':');
}

int weir__super_count(const struct weir__super_kernel *k, const char *key)
{
    size_t size = strlen(key);

    for (const char *at = k->options; *at;) {
        size_t length = strcspn(at, ":");

        if (length > size && !memcmp(at, key, size) && at[size] == '=') {
            long count = strtol(at + size + 1, NULL, 10);

            return count > INT_MAX ? INT_MAX : count < 0 ? 0 : (int)count;
        }
        at += length + (at[length] == ':');
    }
    return 0;
}

/* With stream-fusion=1, puts the scope's operators on the stream of its first one. Without it, logs
 * a warning if a scope has several streams. */
void weir__super_fuse_streams(weir_graph *g)
{
    for (int k = 0; k < g->nsuper_kernels; k++) {
        bool fuse = has_option(&g->super_kernels[k], "stream-fusion=1"), warned = false;
        const struct weir__marks *first = NULL;

        for (int v = 0; v < g->nnodes; v++) {
            struct weir__marks *m = &g->nodes[v].marks;

            if (m->super_kernel != k)
                continue;
            if (!first)
                first = m;
            if (fuse) {
                m->stream = first->stream;
                m->priority = first->priority;
            } else if (m->stream != first->stream && !warned) {
                weir__log(
                    WEIR_LOG_WARN,
                    "super kernel '%s' holds operators of streams '%s' and '%s', which are not "
                    "fused with each other; stream-fusion=1 puts them on one",
                    g->super_kernels[k].name, g->labels[first->stream], g->labels[m->stream]);
                warned = true;
            }
        }
    }
}

static weir_status check_fusable(const struct weir__compile *c, int v, bool *fusable)
{
    const struct weir__node *n = &c->g->nodes[v];
    const struct weir__super_kernel *k;

    *fusable = false;
    if (n->marks.super_kernel < 0)
        return WEIR_OK;
    *fusable = !weir__node_is_gang(n) && !n->op->member && weir__node_engine(n) <= WEIR_ENGINE_MIX;
    k = &c->g->super_kernels[n->marks.super_kernel];
    if (!*fusable && has_option(k, "strict-scope-check=abort"))
        return weir__fail(WEIR_ECONFLICT,
                          "node '%s' (%s) cannot be part of super kernel '%s', and "
                          "strict-scope-check=abort forbids to split it",
                          n->name, n->op->name, k->name);
    return WEIR_OK;
}

weir_status weir__pass_super(struct weir__compile *c)
{
    bool one_function = weir__device_can(c->g->dev, WEIR__RUNS_HOST_FUNCTIONS);

    if (!(c->leader = weir__malloc(((size_t)c->g->nnodes + 1) * sizeof *c->leader)))
        return weir__fail_nomem("allocating the super kernels of %d nodes", c->g->nnodes);
    for (int s = 0; s < c->nstreams; s++) {
        int leader = -1, members = 0;

        for (int p = 0; p < c->streams[s].nnodes; p++) {
            int v = weir__node_at(c, s, p);
            bool fusable;
            weir_status st = check_fusable(c, v, &fusable);

            if (st)
                return st;
            if (!fusable || leader < 0 || !one_function || members == MAX_PHASES / 4 ||
                c->g->nodes[v].marks.super_kernel != c->g->nodes[leader].marks.super_kernel ||
                c->sync_first[v] != c->sync_first[v + 1]) {
                leader = v;
                members = 0;
            }
            members++;
            c->leader[v] = leader;
            if (!fusable)
                leader = -1;
        }
    }
    return WEIR_OK;
}
