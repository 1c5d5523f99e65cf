/* What waits for what. */
#include "conformance/eager/eager.h"

static void wait_for(struct machine *m, int other, weir_event *event)
{
    if (other == m->at || other < 0 || m->autosync)
        return;
    if (rng_chance(&m->rng, 70))
        CHECK_OK(weir_stream_wait(m->streams[m->at], event));
    else
        CHECK_OK(weir_stream_wait_stream(m->streams[m->at], m->streams[other]));
}

void before_read(struct machine *m, int slot)
{
    wait_for(m, m->slots[slot].writer, m->slots[slot].written);
}

void before_write(struct machine *m, int slot)
{
    before_read(m, slot);
    for (int i = 0; i < STREAMS; i++)
        if (m->slots[slot].readers[i])
            wait_for(m, i, m->slots[slot].read[i]);
}

void after_read(struct machine *m, int slot)
{
    m->slots[slot].readers[m->at] = true;
    CHECK_OK(weir_event_record(m->slots[slot].read[m->at], m->streams[m->at]));
}

void after_write(struct machine *m, int slot)
{
    memset(m->slots[slot].readers, 0, sizeof m->slots[slot].readers);
    m->slots[slot].writer = m->at;
    CHECK_OK(weir_event_record(m->slots[slot].written, m->streams[m->at]));
}

void after_host_write(struct machine *m, int slot)
{
    memset(m->slots[slot].readers, 0, sizeof m->slots[slot].readers);
    m->slots[slot].writer = -1;
}
