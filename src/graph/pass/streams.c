/* Assigns each live node its stream and its position there.
 *
 * A label is one stream wherever it appears; nodes without a label run on the caller's stream. With
 * streams=auto, streams_auto.c may move those to added streams.
 */
#include "graph/pass/streams.h"

#include <string.h>

weir_status weir__streams_check(const weir_graph *g, const weir_compile_options *o)
{
    for (int v = 0; v < g->nnodes && o->single_stream; v++)
        if (g->nodes[v].marks.stream)
            return weir__fail(WEIR_ECONFLICT,
                              "Option single_stream=true conflicts with stream label \"%s\"; "
                              "set single_stream to false",
                              g->labels[g->nodes[v].marks.stream]);
    return WEIR_OK;
}

/* The stream of a label, made at its first use. The first use decides its priority, as for a tagged
 * stream in eager mode. */
static weir_status stream_of_label(struct weir__compile *c, const struct weir__marks *marks,
                                   int *by_label, int *stream)
{
    if (marks->stream && !by_label[marks->stream]) {
        if (c->nstreams == WEIR__PLAN_MAX_STREAMS)
            return weir__fail(WEIR_ERANGE,
                              "stream label \"%s\" is one too many: a plan has at "
                              "most %d streams",
                              c->g->labels[marks->stream], WEIR__PLAN_MAX_STREAMS);
        c->streams[c->nstreams] = (struct weir__plan_stream){
            .tag = c->g->labels[marks->stream],
            .priority = marks->priority,
        };
        by_label[marks->stream] = c->nstreams++;
    }
    *stream = by_label[marks->stream];
    return WEIR_OK;
}

static weir_status place_by_label(struct weir__compile *c)
{
    const weir_graph *g = c->g;
    int *by_label = weir__calloc((size_t)g->nlabels + 1, sizeof *by_label);
    weir_status st = WEIR_OK;

    if (!by_label)
        return weir__fail_nomem("allocating streams of %d labels", g->nlabels);
    c->streams[0] = (struct weir__plan_stream){.tag = NULL};
    c->nstreams = 1;
    for (int v = 0; v < g->nnodes && !st; v++) {
        c->stream[v] = c->position[v] = -1;
        if (c->live[v])
            st = stream_of_label(c, &g->nodes[v].marks, by_label, &c->stream[v]);
    }
    weir__free(by_label);
    return st;
}

void weir__streams_number(struct weir__compile *c)
{
    int first = 0;

    for (int s = 0; s < c->nstreams; s++)
        c->streams[s].nnodes = 0;
    for (int v = 0; v < c->g->nnodes; v++)
        if (c->live[v])
            c->position[v] = c->streams[c->stream[v]].nnodes++;
    for (int s = 0; s < c->nstreams; s++) {
        c->streams[s].first = first;
        first += c->streams[s].nnodes;
    }
    for (int v = 0; v < c->g->nnodes; v++)
        if (c->live[v])
            c->order[c->streams[c->stream[v]].first + c->position[v]] = v;
}

weir_status weir__pass_streams(struct weir__compile *c)
{
    size_t nnodes = (size_t)c->g->nnodes;
    bool automatic = c->options.streams != WEIR_STREAMS_EXPLICIT;
    weir_status st;

    if ((st = weir__streams_check(c->g, &c->options)))
        return st;
    c->stream = weir__calloc(nnodes, sizeof *c->stream);
    c->position = weir__calloc(nnodes, sizeof *c->position);
    c->order = weir__calloc(nnodes, sizeof *c->order);
    c->streams = weir__calloc((size_t)c->g->nlabels + 1 + WEIR__AUTO_STREAMS, sizeof *c->streams);
    if (!c->stream || !c->position || !c->order || !c->streams)
        return weir__fail_nomem("allocating streams of %zu nodes", nnodes);
    if ((st = place_by_label(c)))
        return st;
    weir__streams_number(c);
    return automatic && !c->options.single_stream ? weir__streams_auto(c) : WEIR_OK;
}
