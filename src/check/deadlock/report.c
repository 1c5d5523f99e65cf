#include "check/deadlock/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *weir_finding_name(weir_finding_kind kind)
{
    static const char *const names[] = {
#define NAME(code, name, text) name,
        WEIR_FINDING_LIST(NAME)
#undef NAME
    };

    return (unsigned)kind < weir__countof(names) ? names[kind] : "?";
}

struct weir__report *weir__report_new(void)
{
    struct weir__report *r = weir__calloc(1, sizeof *r);

    if (r)
        r->public.exhaustive = true;
    else
        weir__fail_nomem("allocating a report");
    return r;
}

void weir_check_free(weir_check_report *report)
{
    struct weir__report *r = (struct weir__report *)report;

    if (!r)
        return;
    for (int i = 0; i < r->ntexts; i++)
        weir__free(r->texts[i]);
    for (int i = 0; i < r->nlists; i++)
        weir__free(r->lists[i]);
    weir__free(r->texts);
    weir__free(r->lists);
    weir__free(r->findings);
    weir__free(r);
}

/* Sorts errors before warnings; each group keeps its order. */
static bool errors_first(struct weir__report *r)
{
    weir_finding *sorted = weir__calloc((size_t)r->nfindings, sizeof *sorted);
    int n = 0;

    if (!sorted)
        return false;
    for (int error = 1; error >= 0; error--)
        for (int i = 0; i < r->nfindings; i++)
            if (r->findings[i].is_error == error)
                sorted[n++] = r->findings[i];
    weir__free(r->findings);
    r->findings = sorted;
    return true;
}

weir_status weir__report_finish(struct weir__report *r, weir_check_report **out)
{
    *out = NULL;
    if (r->failed || !errors_first(r)) {
        weir_check_free(&r->public);
        return weir__fail_nomem("writing the report of a check");
    }
    r->public.findings = r->findings;
    r->public.nfindings = (size_t)r->nfindings;
    for (int i = 0; i < r->nfindings; i++)
        r->public.nerrors += r->findings[i].is_error;
    *out = &r->public;
    return WEIR_OK;
}

const char *weir__report_text(struct weir__report *r, const char *format, ...)
{
    va_list args, again;
    int size;
    char *text;

    va_start(args, format);
    va_copy(again, args);
    size = vsnprintf(NULL, 0, format, args);
    text = size < 0 ? NULL : weir__malloc((size_t)size + 1);
    if (!text || !weir__grow(&r->texts, r->ntexts, &r->cap_texts, sizeof *r->texts)) {
        weir__free(text);
        text = NULL;
        r->failed = true;
    } else {
        vsnprintf(text, (size_t)size + 1, format, again);
        r->texts[r->ntexts++] = text;
    }
    va_end(again);
    va_end(args);
    return text ? text : "";
}

void weir__report_line(struct weir__report *r, struct weir__lines *lines, const char *text)
{
    if (weir__grow(&lines->at, lines->n, &lines->cap, sizeof *lines->at))
        lines->at[lines->n++] = text;
    else
        r->failed = true;
}

void weir__report_line_once(struct weir__report *r, struct weir__lines *lines, const char *text)
{
    for (int i = 0; i < lines->n; i++)
        if (!strcmp(lines->at[i], text))
            return;
    weir__report_line(r, lines, text);
}

const char *const *weir__report_lines(struct weir__report *r, struct weir__lines *lines,
                                      size_t *count)
{
    const char **at = lines->at;

    *count = (size_t)lines->n;
    *lines = (struct weir__lines){NULL, 0, 0};
    if (!at)
        return NULL;
    if (!weir__grow(&r->lists, r->nlists, &r->cap_lists, sizeof *r->lists)) {
        weir__free(at);
        r->failed = true;
        *count = 0;
        return NULL;
    }
    return r->lists[r->nlists++] = at;
}

void weir__report_add(struct weir__report *r, const weir_finding *finding)
{
    if (weir__grow(&r->findings, r->nfindings, &r->cap_findings, sizeof *r->findings))
        r->findings[r->nfindings++] = *finding;
    else
        r->failed = true;
}

const char *weir__report_rank(struct weir__report *r, const struct weir__check_program *p, int rank)
{
    return p->nranks > 1 ? weir__report_text(r, "rank %d: ", rank) : "";
}

const char *weir__report_cores(struct weir__report *r, const struct weir__check_rank *rank,
                               int cube, int vector)
{
    if (cube && vector)
        return weir__report_text(r, "%d cube and %d vector cores", cube, vector);
    return weir__report_text(r, "%d %score%s", cube + vector,
                             !rank->split ? ""
                             : cube       ? "cube "
                                          : "vector ",
                             cube + vector == 1 ? "" : "s");
}

const char *weir__report_blocks(struct weir__report *r, const struct weir__check_rank *rank,
                                const struct weir__check_op *op, int blocks)
{
    return weir__report_cores(r, rank, blocks * op->cube, blocks * op->vector);
}
