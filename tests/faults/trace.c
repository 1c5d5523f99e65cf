/* Fails every allocation of traces: recording, reading, writing. */
#include "inject.h"

#include <stdlib.h>

static const char spec[] = "cpu:cores=2,threads=1";

static weir_status record(struct world *w)
{
    weir_trace *t = NULL;
    weir_status st;

    if ((st = weir_trace_start(NULL)))
        return st;
    if ((st = weir_launch_submit(w->s, &(weir_launch){.name = "op"}))) {
        weir_status stopped = weir_trace_stop(&t);

        weir_trace_free(t);
        return stopped ? stopped : st;
    }
    CHECK_OK(weir_stream_sync(w->s));
    st = weir_trace_stop(&t);
    if (st)
        CHECK(!t);
    weir_trace_free(t);
    return st;
}

/* Two devices that PyTorch's profiler saw. */
static const char profile[] =
    "{\"traceEvents\":["
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":{\"name\":\"a\"}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":2},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"l\",\"pid\":1,\"tid\":7,\"ts\":9,\"dur\":2},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"m\",\"pid\":1,\"tid\":8,\"ts\":50,\"dur\":2},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"n\",\"pid\":1,\"tid\":7,\"ts\":53,\"dur\":2}]}";

static weir_status convert(struct world *w)
{
    weir_trace *t;
    weir_status st = weir_trace_parse(profile, sizeof profile - 1, "profile", &t);

    (void)w;
    if (st) {
        CHECK(!t);
        return st;
    }
    if (!(st = weir_trace_write_chrome(t, "/dev/null")) &&
        !(st = weir_trace_write_html((const weir_trace *[]){t}, NULL, 1, "/dev/null")))
        st = weir_trace_write_graph(t, 1, "/dev/null");
    weir_trace_free(t);
    return st;
}

TEST(faults, tracing_survives_any_failed_allocation)
{
    inject_install();
    CHECK_GT(inject_each("record", spec, record), 4);
    CHECK_GT(inject_each("convert", spec, convert), 12);
}
