/* Computes the own time of nested spans, which profiles of the host contain: a span's time without
 * that of its callees. A stream runs one operator after the other, so each span becomes one
 * operator of that length. Operators are sorted by the start of their longest piece, and those
 * within one outermost span follow each other without gaps. Sums, counts and outermost spans are
 * exact; an inner operator may be shifted by the short pieces of its callers.
 *
 * Spans that only name a caller become no operators: the time between their callees is a pause. */
#include <stdlib.h>

#include "trace/read/import.h"

/* A span that has begun and not ended. */
struct open {
    int span;
    int64_t at;      /* its time is counted up to here */
    int64_t longest; /* its longest piece so far */
};

struct sweep {
    struct weir__import_span *s;
    int64_t *own, *where; /* by span: its own time, and the start of its longest piece */
    struct open *stack;
    int depth;
};

static void count_piece(struct sweep *w, int64_t until)
{
    struct open *top = &w->stack[w->depth - 1];
    int64_t piece = until - top->at;

    if (piece <= 0)
        return;
    w->own[top->span] += piece;
    if (piece > top->longest) {
        top->longest = piece;
        w->where[top->span] = top->at;
    }
    top->at = until;
}

/* Closes the spans that end by `until`, innermost first. */
static void close_spans(struct sweep *w, int64_t until)
{
    while (w->depth && w->s[w->stack[w->depth - 1].span].to <= until) {
        int64_t end = w->s[w->stack[w->depth - 1].span].to;

        count_piece(w, end);
        if (--w->depth && w->stack[w->depth - 1].at < end)
            w->stack[w->depth - 1].at = end;
    }
}

/* Opens span i. A span that starts inside another and ends after it is no callee: its start is
 * moved to the other's end. */
static void open_span(struct sweep *w, int i)
{
    struct weir__import_span *s = w->s;

    close_spans(w, s[i].from);
    while (w->depth && s[i].to > s[w->stack[w->depth - 1].span].to) {
        s[i].from = s[w->stack[w->depth - 1].span].to;
        close_spans(w, s[i].from);
    }
    if (w->depth)
        count_piece(w, s[i].from);
    w->stack[w->depth++] = (struct open){i, s[i].from, 0};
    w->where[i] = s[i].from;
}

struct place {
    int64_t at;
    int span;
};

static int compare_places(const void *x, const void *y)
{
    const struct place *a = x, *b = y;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->span > b->span) - (a->span < b->span);
}

/* Lays out an outermost span and the n - 1 spans within it. */
static void lay_out(struct sweep *w, int first, int n, struct place *places)
{
    int64_t at = w->s[first].from;

    for (int i = 0; i < n; i++)
        places[i] = (struct place){w->where[first + i], first + i};
    qsort(places, (size_t)n, sizeof *places, compare_places);
    for (int i = 0; i < n; i++) {
        struct weir__import_span *s = &w->s[places[i].span];
        int64_t own = w->own[places[i].span];

        s->from = at;
        s->to = at += own;
    }
}

/* Counts the spans of s[first..n) that lie within the first one, including itself. */
static int extent(const struct weir__import_span *s, int first, int n)
{
    int i = first + 1;

    while (i < n && s[i].stream == s[first].stream && s[i].from < s[first].to)
        i++;
    return i - first;
}

static void sweep_stream(struct sweep *w, int first, int n)
{
    w->depth = 0;
    for (int i = first; i < first + n; i++) {
        w->where[i] = w->s[i].from;
        if (w->s[i].kind == WEIR__SPAN_WORK)
            open_span(w, i);
    }
    close_spans(w, INT64_MAX);
    for (int i = first; i < first + n; i++)
        if (w->s[i].kind == WEIR__SPAN_WORK && !w->own[i] && w->s[i].to > w->s[i].from)
            w->s[i].caller = true; /* it has no time of its own */
}

int weir__import_self_time(struct weir__import_span *s, int n)
{
    struct sweep w = {.s = s};
    struct place *places = weir__malloc((size_t)(n + 1) * sizeof *places);
    int kept = 0;

    w.own = weir__calloc((size_t)n + 1, sizeof *w.own);
    w.where = weir__calloc((size_t)n + 1, sizeof *w.where);
    w.stack = weir__malloc((size_t)(n + 1) * sizeof *w.stack);
    if (!places || !w.own || !w.where || !w.stack) {
        kept = -1;
        goto done;
    }
    for (int i = 0, count; i < n; i += count) {
        for (count = 1; i + count < n && s[i + count].stream == s[i].stream;)
            count++;
        sweep_stream(&w, i, count);
    }
    for (int i = 0, count = 1; i < n; i += count) {
        count = 1;
        /* Pauses inside a caller are real: its callees keep their times. */
        if (s[i].kind == WEIR__SPAN_WORK && (!s[i].caller || w.own[i] == 0) &&
            (count = extent(s, i, n)) > 1)
            lay_out(&w, i, count, places);
    }
    for (int i = 0; i < n; i++)
        if (s[i].kind != WEIR__SPAN_WORK || !s[i].caller)
            s[kept++] = s[i];
    qsort(s, (size_t)kept, sizeof *s, weir__import_compare_spans);
done:
    weir__free(places);
    weir__free(w.own);
    weir__free(w.where);
    weir__free(w.stack);
    return kept;
}
