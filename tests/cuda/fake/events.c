/* Events: points of streams, and their times. */
#include <stdlib.h>

#include "fake.h"

void fake_put_point(struct fake_point *p)
{
    if (p && !--p->refs)
        free(p);
}

void fake_pass_point(struct fake_point *p)
{
    if (atomic_load(&fake_lost))
        return;
    p->over = true;
    p->ms = fake_ms();
}

int cuEventCreate(weir__cu_event *event, unsigned flags)
{
    struct fake_event *e;

    FAKE_CALL_IN_CONTEXT();
    e = fake_new(FAKE_EVENT, sizeof *e);
    e->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    e->context = fake_current();
    *event = e;
    return 0;
}

static void forget_record(struct fake_event *e)
{
    fake_put_point(e->point);
    e->point = NULL;
    free(e->before.nodes);
    e->before = (struct fake_set){NULL, 0};
    e->capture = 0;
}

int cuEventDestroy_v2(weir__cu_event event)
{
    int code = fake_enter_context(__func__);
    struct fake_event *e;

    pthread_mutex_lock(&fake_lock);
    e = fake_check(event, FAKE_EVENT);
    fake_forget(e);
    forget_record(e);
    free(e);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

struct fake_point *fake_new_point(struct fake_event *e)
{
    forget_record(e);
    if (!(e->point = calloc(1, sizeof *e->point)))
        abort();
    e->point->refs = 2; /* the event's and the command's */
    return e->point;
}

/* In a capture an event stands for nodes, or, if it is external, is a node itself. */
static int record(weir__cu_event event, weir__cu_stream stream, bool external)
{
    struct fake_op op = {.kind = FAKE_OP_RECORD};
    struct fake_stream *s;
    struct fake_event *e;
    int code = 0;

    pthread_mutex_lock(&fake_lock);
    e = fake_check(event, FAKE_EVENT);
    s = fake_any_stream(stream);
    if (e->context != s->context)
        fake_misuse("an event of another context is recorded");
    if (s->capture && external) {
        op.u.mark.event = e;
        code = fake_queue(s, &op);
    } else if (s->capture) {
        forget_record(e);
        fake_capture_record(s, e);
    } else {
        op.u.mark.point = fake_new_point(e);
        code = fake_queue(s, &op);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int cuEventRecord(weir__cu_event event, weir__cu_stream stream)
{
    FAKE_CALL_ON(stream);
    return record(event, stream, false);
}

int cuEventRecordWithFlags(weir__cu_event event, weir__cu_stream stream, unsigned flags)
{
    FAKE_CALL_ON(stream);
    return record(event, stream, flags & CU_EVENT_RECORD_EXTERNAL);
}

int cuStreamWaitEvent(weir__cu_stream stream, weir__cu_event event, unsigned flags)
{
    struct fake_op op = {.kind = FAKE_OP_WAIT};
    struct fake_stream *s;
    struct fake_event *e;
    int code = 0;

    (void)flags;
    FAKE_CALL_ON(stream);
    pthread_mutex_lock(&fake_lock);
    e = fake_check(event, FAKE_EVENT);
    s = fake_any_stream(stream);
    if (e->capture || s->capture) {
        code = fake_capture_wait(s, e);
    } else if (e->point) {
        op.u.mark.point = e->point;
        e->point->refs++;
        code = fake_queue(s, &op);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int cuEventSynchronize(weir__cu_event event)
{
    struct fake_event *e;

    FAKE_CALL_IN_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    e = fake_check(event, FAKE_EVENT);
    while (e->point && !e->point->over && !atomic_load(&fake_lost))
        pthread_cond_wait(&fake_changed, &fake_lock);
    pthread_mutex_unlock(&fake_lock);
    return atomic_load(&fake_lost);
}

int cuEventElapsedTime(float *milliseconds, weir__cu_event start_event, weir__cu_event end_event)
{
    struct fake_event *from, *to;
    int code = 0;

    FAKE_CALL_IN_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    from = fake_check(start_event, FAKE_EVENT);
    to = fake_check(end_event, FAKE_EVENT);
    if (!from->timed || !to->timed || !from->point || !to->point)
        code = FAKE_BAD_HANDLE;
    else if (!from->point->over || !to->point->over)
        code = FAKE_NOT_READY;
    else
        *milliseconds = (float)(to->point->ms - from->point->ms);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
