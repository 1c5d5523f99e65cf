/* Reports operators and their tensors to the race checker. */
#include "comm/comm.h"
#include "tensor/tensor.h"

enum { FEW = 16 };

static void describe(const struct weir__access *a, struct weir__race_operand *o)
{
    const struct weir__view *v = &a->tensor->view;
    weir_buffer *b = a->tensor->buffer;

    o->region = b->state == WEIR__EXTERNAL ? NULL : &b->race;
    o->first = (uintptr_t)b->address;
    o->end = o->first + b->size;
    o->owner = b;
    o->writes = a->writes;
    o->type = weir_dtype_name(v->dtype);
    o->ndim = v->ndim;
    o->size = v->shape;
    weir__view_footprint(v, &o->bytes);
}

/* Orders the stream after a command of another stream. */
static weir_status wait_for(weir_stream *s, const struct weir__race_wait_for *missing)
{
    weir_stream *source = weir__containerof(missing->name, weir_stream, race);
    weir_status st;

    if (source->dev != s->dev) {
        weir__log(WEIR_LOG_WARN, "autosync cannot order %s after %s: wait on the host",
                  s->dev->props.name, source->dev->props.name);
        return WEIR_OK;
    }
    if ((st = weir__clock_reserve(&s->clock, source->slot + 1)))
        return st;
    return weir__stream_wait_mark(s, (struct weir__mark){source, missing->seq}, NULL,
                                  WEIR__WAIT_ERRORS);
}

/* Queues the waits that autosync asks for. */
static weir_status order(weir_stream *s, const char *op, const struct weir__race_operand *operands,
                         int n)
{
    struct weir__race_missing missing = {0};
    weir_status st = weir__race_before(weir__stream_race(s), op, operands, n, &missing);

    for (int i = 0; i < missing.n && !st; i++)
        st = wait_for(s, &missing.at[i]);
    weir__free(missing.at);
    return st;
}

/* Operands of one operator; a fixed array is enough for most. */
struct operands {
    struct weir__race_operand few[FEW], *all;
};

static weir_status open_operands(struct operands *o, const char *op,
                                 const struct weir__access *accesses, int n)
{
    o->all = o->few;
    if (n > FEW && !(o->all = weir__calloc((size_t)n, sizeof *o->all)))
        return weir__fail_nomem("allocating the operands of '%s'", op);
    for (int i = 0; i < n; i++)
        describe(&accesses[i], &o->all[i]);
    return WEIR_OK;
}

static void close_operands(struct operands *o)
{
    if (o->all != o->few)
        weir__free(o->all);
}

/* Fills `o` with operands that are compared with earlier accesses. Close it unless this fails. */
static weir_status open_ordered(struct operands *o, weir_stream *s, const char *op,
                                const struct weir__access *accesses, int n)
{
    weir_status st;

    /* First queues the waits that wait_tensor asked for, so that the comparison sees them. */
    for (int i = 0; i < n; i++)
        if (accesses[i].tensor->dev == s->dev && accesses[i].tensor->buffer->after_seq &&
            (st = weir__buffer_await(accesses[i].tensor->buffer, s)))
            return st;
    if ((st = weir__stream_queue_deferred(s)) || (st = open_operands(o, op, accesses, n)))
        return st;
    if ((st = order(s, op, o->all, n)))
        close_operands(o);
    return st;
}

weir_status weir__race_check(weir_stream *s, const char *op, const struct weir__access *accesses,
                             int n)
{
    struct operands o;
    weir_status st = open_ordered(&o, s, op, accesses, n);

    if (!st)
        close_operands(&o);
    return st;
}

void weir__race_note(weir_stream *s, const char *op, const struct weir__access *accesses, int n)
{
    struct operands o;

    if (open_operands(&o, op, accesses, n))
        return;
    weir__race_after(weir__stream_race(s), op, o.all, n);
    close_operands(&o);
}

static void see_call(weir_stream *s, const struct weir__meet *meet)
{
    weir__race_see_call(weir__stream_race(s), meet->channel, meet->call, meet->channel->nmembers);
}

weir_status weir__submit_checked(weir_stream *s, const struct weir__kernel *kernel,
                                 weir_buffer *const *buffers, size_t nbuffers,
                                 const struct weir__access *accesses, int n)
{
    struct operands o;
    weir_status st = open_ordered(&o, s, kernel->name, accesses, n);

    if (st)
        return st;
    if (!(st = weir__submit_using(s, kernel, buffers, nbuffers, false))) {
        weir__race_after(weir__stream_race(s), kernel->name, o.all, n);
        if (kernel->is_collective)
            see_call(s, kernel->args);
    }
    close_operands(&o);
    return st;
}
