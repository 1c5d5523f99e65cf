/* Describes races in words. */
#include "check/race/watch.h"

void weir__race_say(struct weir__text *text, const weir_race *r)
{
    const weir_race_access *a = &r->first, *b = &r->second;

    weir__text_add(text,
                   "'%s' on stream '%s' %s %s that '%s' on stream '%s' %s, and nothing "
                   "orders the two",
                   b->op, b->stream, b->writes ? "writes" : "reads", b->tensor, a->op, a->stream,
                   a->writes ? "writes" : "reads");
}

static void report_access(struct weir__text *text, const weir_race_access *a)
{
    weir__text_add(text, "    command %llu of stream '%s' on %s: %s %s %s",
                   (unsigned long long)a->command, a->stream, a->device, a->op,
                   a->writes ? "writes" : "reads", a->tensor);
    if (a->file[0])
        weir__text_add(text, "  (%s:%d)", a->file, a->line);
    weir__text_add(text, "\n");
}

void weir__race_describe(struct weir__text *text, const weir_race *r)
{
    const weir_race_access *a = &r->first, *b = &r->second;

    weir__race_say(text, r);
    if (r->times > 1)
        weir__text_add(text, " (%llu times)", (unsigned long long)r->times);
    weir__text_add(text, "\n");
    report_access(text, a);
    report_access(text, b);
    if (r->ordered_up_to)
        weir__text_add(text, "  stream '%s' is ordered after command %llu of '%s' only.\n",
                       b->stream, (unsigned long long)r->ordered_up_to, a->stream);
    else
        weir__text_add(text, "  stream '%s' waits for nothing of '%s'.\n", b->stream, a->stream);
    if (r->fixed)
        weir__text_add(text, "  inserted: a wait of '%s' for '%s', between '%s' and '%s'.\n",
                       b->stream, a->stream, a->op, b->op);
    else
        weir__text_add(text,
                       "  missing: record an event on '%s' after '%s', and let '%s' wait for it "
                       "before '%s'.\n",
                       a->stream, a->op, b->stream, b->op);
}
