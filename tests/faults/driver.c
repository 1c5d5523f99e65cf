/* A driver between the device and its own, which refuses one call when it is told to. */
#include "inject.h"

#include "base/base.h"
#include "device/device.h"

static const struct weir__driver *real;
static struct weir__driver refusing;
static struct weir__driver_plans refusing_plans;
static long countdown; /* one thread makes the calls that can be refused */
static bool fired;

static bool refuse(void)
{
    if (countdown <= 0 || --countdown > 0)
        return false;
    fired = true;
    return true;
}

static weir_status refusal(void)
{
    return weir__fail(INJECT_DRIVER_STATUS, "the driver was told to refuse this");
}

static weir_status stream_open(weir_stream *s)
{
    return refuse() ? refusal() : real->stream_open(s);
}

static weir_status submit(weir_stream *s, const struct weir__kernel *kernel)
{
    return refuse() ? refusal() : real->submit(s, kernel);
}

static weir_status wait(weir_stream *s, struct weir__mark mark, enum weir__wait how)
{
    return refuse() ? refusal() : real->wait(s, mark, how);
}

static weir_status callback(weir_stream *s, weir_callback_fn fn, void *user)
{
    return refuse() ? refusal() : real->callback(s, fn, user);
}

static weir_status stamp(weir_stream *s, _Atomic uint64_t *ns)
{
    return refuse() ? refusal() : real->stamp(s, ns);
}

static weir_status program_make(weir_device *dev, const struct weir__lane *lanes, int nlanes,
                                struct weir__program **out)
{
    return refuse() ? refusal() : real->plans->make(dev, lanes, nlanes, out);
}

static weir_status program_run(struct weir__program *program, weir_stream *const *streams,
                               const uint64_t *tickets, int ntickets)
{
    return refuse() ? refusal() : real->plans->run(program, streams, tickets, ntickets);
}

static void *map(weir_device *dev, size_t size)
{
    return refuse() ? NULL : real->map(dev, size);
}

void inject_arm_driver(weir_device *dev, long n)
{
    if (dev->driver != &refusing) {
        real = dev->driver;
        refusing = *real;
        refusing.stream_open = stream_open;
        refusing.submit = submit;
        refusing.wait = wait;
        refusing.callback = callback;
        refusing.stamp = stamp;
        refusing_plans = *real->plans;
        refusing_plans.make = program_make;
        refusing_plans.run = program_run;
        refusing.plans = &refusing_plans;
        refusing.map = map;
        dev->driver = &refusing;
    }
    fired = false;
    countdown = n;
}

bool inject_disarm_driver(void)
{
    countdown = 0;
    return fired;
}
