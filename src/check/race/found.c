#include "check/race/found.h"

#include <stdio.h>
#include <string.h>

enum { MOST_FINDINGS = 4096 };

void weir__race_copy_text(char *to, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);

    memcpy(to, text, n);
    to[n] = 0;
}

weir_race_access weir__race_access(const struct weir__race_record *r, const char *stream,
                                   const char *device)
{
    weir_race_access a = {.address = r->bytes.first,
                          .writes = r->writes,
                          .command = r->seq,
                          .line = r->file ? r->line : 0};
    int at;

    weir__race_copy_text(a.op, sizeof a.op, r->op);
    weir__race_copy_text(a.stream, sizeof a.stream, stream);
    weir__race_copy_text(a.device, sizeof a.device, device);
    weir__race_copy_text(a.file, sizeof a.file, r->file ? r->file : "");
    at = snprintf(a.tensor, sizeof a.tensor, "%s[", r->shape.type);
    for (int d = 0; d < r->shape.ndim && at < (int)sizeof a.tensor - 24; d++)
        at += snprintf(a.tensor + at, sizeof a.tensor - (size_t)at, "%s%lld", d ? ", " : "",
                       (long long)r->shape.size[d]);
    weir__race_copy_text(a.tensor + at, sizeof a.tensor - (size_t)at, "]");
    return a;
}

static bool same_place(const weir_race_access *a, const weir_race_access *b)
{
    return a->writes == b->writes && a->line == b->line && !strcmp(a->op, b->op) &&
           !strcmp(a->stream, b->stream) && !strcmp(a->device, b->device) &&
           !strcmp(a->tensor, b->tensor) && !strcmp(a->file, b->file);
}

bool weir__race_keep(struct weir__race_found *f, const weir_race *race)
{
    for (int i = 0; i < f->n; i++)
        if (same_place(&f->at[i].first, &race->first) &&
            same_place(&f->at[i].second, &race->second)) {
            f->at[i].times++;
            return true;
        }
    if (f->n == MOST_FINDINGS || !weir__grow(&f->at, f->n, &f->cap, sizeof *f->at))
        return false;
    f->at[f->n++] = *race;
    return true;
}

void weir__race_report_all(struct weir__text *text, const struct weir__race_found *f,
                           uint64_t operators, uint64_t lost)
{
    if (f->n)
        weir__text_add(text, "%d race%s in %llu operators\n\n", f->n, f->n == 1 ? "" : "s",
                       (unsigned long long)operators);
    else
        weir__text_add(text, "no race in %llu operators\n", (unsigned long long)operators);
    for (int i = 0; i < f->n; i++) {
        weir__text_add(text, "race %d: ", i + 1);
        weir__race_describe(text, &f->at[i]);
    }
    if (lost)
        weir__text_add(text, "%llu records were dropped; each may hide a race\n",
                       (unsigned long long)lost);
}
