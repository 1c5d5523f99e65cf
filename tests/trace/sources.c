/* Devices that announce themselves in another order than they were numbered, as two do that
 * are opened at once. */
#include "helpers.h"
#include "trace/record/trace.h"

static weir_device_props props = {.name = "made up", .cores = {1, 1}};

static void announce(struct weir__trace_source *source)
{
    weir__trace_stream(source->id, 0, 0, "stream", 0);
}

static void put_op(uint64_t device)
{
    struct weir__trace_record r = {
        .kind = WEIR__TRACE_OP,
        .engine = WEIR_ENGINE_HOST,
        .whole = true,
        .device = (uint32_t)device,
        .seq = 1,
        .from = 1,
        .to = 2,
        .u.op = {weir__trace_name("op"), 0, 1},
        .blocks = 1,
        .cores = WEIR__TRACE_NO_CORES,
    };

    weir__trace_put(&r);
}

static void check_order(bool opened_before)
{
    struct weir__trace_source late = {
        .id = 1000001, .props = &props, .clock = WEIR__TRACE_OWN_NS, .announce = announce};
    struct weir__trace_source early = late, between = late;
    weir_trace_data data;
    weir_trace *t;

    early.id = 999999;
    between.id = 1000000;
    if (!opened_before)
        CHECK_OK(weir_trace_start(NULL));
    weir__trace_add_source(&late);
    weir__trace_add_source(&early);
    weir__trace_add_source(&between);
    if (opened_before)
        CHECK_OK(weir_trace_start(NULL));
    put_op(late.id);
    put_op(between.id);
    put_op(early.id);
    t = stop_trace(&data);
    CHECK_EQ(data.ndevices, 3);
    CHECK_EQ(data.nops, 3);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQ(data.ops[i].device, i);
    weir_trace_free(t);
    weir__trace_remove_source(&late);
    weir__trace_remove_source(&early);
    weir__trace_remove_source(&between);
}

TEST(trace, devices_are_found_in_any_order_of_opening)
{
    check_order(false);
    check_order(true);
}
