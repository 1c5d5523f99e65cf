/* What the streams of a soft device are at, for timeouts. Everything here is read
 * while it changes: a report is a snapshot for people. */
#include "soft/soft.h"

uint64_t weir__soft_progress(weir_device *dev)
{
    uint64_t sum = 0;

    weir__mutex_lock(&dev->lock);
    for (unsigned i = 0; i < dev->nstreams; i++)
        sum += weir__soft_done(dev->streams[i]);
    weir__mutex_unlock(&dev->lock);
    return sum;
}

bool weir__soft_untimed(weir_device *dev)
{
    bool found = false;

    weir__mutex_lock(&dev->lock);
    for (unsigned i = 0; i < dev->nstreams; i++)
        found |= atomic_load(&weir__soft(dev->streams[i])->untimed);
    weir__mutex_unlock(&dev->lock);
    return found;
}

void weir__soft_report(weir_device *dev, struct weir__text *text)
{
    weir__mutex_lock(&dev->lock);
    for (unsigned i = 0; i < dev->nstreams; i++) {
        struct weir__soft_stream *s = weir__soft(dev->streams[i]);
        uint64_t done = weir__soft_done(&s->base), queued = weir__stream_submitted(&s->base);
        struct weir__soft_stream *other = atomic_load(&s->waits_for);
        const char *doing = atomic_load(&s->doing);

        if (done == queued)
            continue;
        weir__text_add(text, "\n  stream '%s': %llu of %llu commands over, ", s->base.name,
                       (unsigned long long)done, (unsigned long long)queued);
        if (other)
            weir__text_add(text, "waits for command %llu of stream '%s'",
                           (unsigned long long)atomic_load(&s->waits_seq), other->base.name);
        else if (atomic_load(&s->meeting))
            weir__text_add(text, "at collective '%s', waits for its peers or runs with them",
                           doing ? doing : "");
        else if (doing)
            weir__text_add(text, "at operator '%s'", doing);
        else
            weir__text_add(text, "its next command waits for a core");
    }
    weir__mutex_unlock(&dev->lock);
}
