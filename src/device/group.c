/* Groups whose ranks are devices of this process. */
#include "base/sized.h"
#include "comm/comm.h"
#include "device/device.h"

#include <stdio.h>

static weir_status check_devices(weir_device *const *devices, int nranks)
{
    int most = devices[0] && devices[0]->driver->collectives
                   ? devices[0]->driver->collectives->most_ranks
                   : 0;

    if (most && nranks > most)
        return weir__fail(WEIR_ERANGE,
                          "a group of %d ranks is too large: on %s, in one process, a group has at "
                          "most %d; for more ranks use a process per GPU and engine nccl",
                          nranks, devices[0]->props.name, most);
    for (int i = 0; i < nranks; i++) {
        if (!devices[i])
            return weir__fail(WEIR_EINVAL, "a group of %d ranks: the device of rank %d is NULL",
                              nranks, i);
        if (!devices[i]->driver->collectives)
            return weir__fail(
                WEIR_EUNSUPPORTED,
                "%s runs no collectives: use devices that do, such as cpu, or move the data "
                "with weir_tensor_copy",
                devices[i]->props.name);
        if (devices[i]->driver != devices[0]->driver)
            return weir__fail(WEIR_EUNSUPPORTED,
                              "a group needs devices of one kind: rank 0 is on %s, rank %d on %s",
                              devices[0]->props.name, i, devices[i]->props.name);
    }
    return WEIR_OK;
}

/* Devices in virtual time detect a deadlock exactly, unless the host has not made the call of some
 * rank yet. The group waits this long for the host to make it. */
enum { VIRTUAL_PATIENCE_S = 10 };

static bool is_real_time(const weir_device *dev)
{
    return dev->props.features & WEIR_FEATURE_REAL_TIME;
}

static int64_t default_timeout(weir_device *const *devices, int nranks)
{
    int64_t least = -1;

    for (int i = 0; i < nranks; i++) {
        int64_t t = devices[i]->op_timeout_ns;

        if (t >= 0 && (least < 0 || t < least))
            least = t;
    }
    least = least < 0 ? -1 : least / 4 * 3 + 1;
    if (!is_real_time(devices[0]) &&
        (least < 0 || least > VIRTUAL_PATIENCE_S * INT64_C(1000000000)))
        least = VIRTUAL_PATIENCE_S * INT64_C(1000000000);
    return least;
}

/* True if two ranks are on the same device. */
static bool has_twins(weir_device *const *devices, int nranks)
{
    for (int i = 1; i < nranks; i++)
        for (int k = 0; k < i; k++)
            if (devices[k] == devices[i])
                return true;
    return false;
}

weir_status weir_group_create(weir_device *const *devices, int nranks,
                              const weir_group_options *options, weir_group **out)
{
    weir_group_options o;
    struct weir__ranks all;
    weir_group *g;
    weir_status st = WEIR__TAKE(&o, options, "options of a group");

    WEIR__NEED(devices, "devices");
    WEIR__NEED(out, "out");
    *out = NULL;
    if (st)
        return st;
    if (nranks >= 1 && nranks <= WEIR_MAX_RANKS) {
        if ((st = check_devices(devices, nranks)))
            return st;
        if (!o.timeout_ns)
            o.timeout_ns = default_timeout(devices, nranks);
    }
    if ((st = weir__group_make(nranks, &o, &weir__local_transport, NULL, &g)))
        return st;
    for (int i = 0; i < nranks; i++) {
        g->ranks[i].dev = devices[i];
        snprintf(g->ranks[i].device, sizeof g->ranks[i].device, "%s", devices[i]->label);
    }
    g->twins = has_twins(devices, nranks);
    all = weir__ranks_all(nranks);
    g->explain = devices[0]->driver->collectives->explain;
    if (!(g->whole = weir__group_channel(g, "", &all)) ||
        (is_real_time(devices[0]) && (st = weir__timer_start(g)))) {
        st = st ? st : WEIR_ENOMEM;
        weir__group_free(g);
        return st;
    }
    for (int i = 0; i < nranks; i++)
        atomic_fetch_add(&devices[i]->groups_live, 1);
    *out = g;
    return WEIR_OK;
}

weir_status weir_group_destroy(weir_group *g)
{
    weir_device *devices[WEIR_MAX_RANKS];
    int nranks;
    weir_status st;

    if (!g)
        return WEIR_OK;
    nranks = g->nranks;
    for (int i = 0; i < nranks; i++)
        devices[i] = g->ranks[i].dev;
    if ((st = weir__group_free(g)))
        return st;
    for (int i = 0; i < nranks; i++)
        if (devices[i]) /* not of another process */
            atomic_fetch_sub(&devices[i]->groups_live, 1);
    return WEIR_OK;
}
