/* Devices by number. Each is a device of weir, opened on first use with the spec in WEIR_DEVICE.
 * WEIR_CANN_DEVICES is the number of the machine's devices; ASCEND_RT_VISIBLE_DEVICES selects those
 * that this process sees. If the spec is `cuda:0`, device i of the machine is cuda:i. */
#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 64, DEFAULT_DEVICES = 8 };

static struct device *devices[MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_cuda(const char *spec)
{
    return spec && !strncmp(spec, "cuda", 4);
}

/* Returns the number of devices. For GPUs the default is 1; for other devices it is that of a
 * machine with NPUs. */
static long machine_count(void)
{
    const char *text = getenv("WEIR_CANN_DEVICES");
    long n = text ? strtol(text, NULL, 10) : is_cuda(getenv("WEIR_DEVICE")) ? 1 : DEFAULT_DEVICES;

    return n < 1 ? 1 : n > MAX_DEVICES ? MAX_DEVICES : n;
}

/* Reads the list of visible devices as torch_npu does: ascending numbers separated by commas. The
 * list ends before the first character that does not fit, and before a device that does not exist.
 * A list that is not ascending counts as empty. */
static uint32_t visible(int ids[MAX_DEVICES])
{
    const char *text = getenv("ASCEND_RT_VISIBLE_DEVICES");
    long there = machine_count(), last = -1;
    uint32_t n = 0;

    if (!text) {
        for (; n < there; n++)
            ids[n] = (int)n;
        return n;
    }
    while (*text >= '0' && *text <= '9') {
        char *end;
        long id = strtol(text, &end, 10);

        if (id <= last)
            return 0;
        if (id >= there)
            return n;
        ids[n++] = (int)(last = id);
        if (*end != ',')
            break;
        text = end + 1;
    }
    return n;
}

uint32_t device_count(void)
{
    int ids[MAX_DEVICES];

    return visible(ids);
}

/* Makes a device's spec: replaces the number in "cuda:0"; other specs stay as they are. */
static void spec_of(int id, char *out, size_t size)
{
    const char *spec = getenv("WEIR_DEVICE");
    int ids[MAX_DEVICES];
    const char *rest;

    if (!spec || !*spec)
        spec = "cpu";
    if (!is_cuda(spec)) {
        snprintf(out, size, "%s", spec);
        return;
    }
    rest = strchr(spec, ',');
    snprintf(out, size, "cuda:%d%s", (uint32_t)id < visible(ids) ? ids[id] : id, rest ? rest : "");
}

static aclError open_device(int id, struct device **out)
{
    struct device *d = calloc(1, sizeof *d);
    char spec[512];
    weir_status st;

    if (!d)
        return fail(ACL_ERROR_BAD_ALLOC, "device %d", id);
    spec_of(id, spec, sizeof spec);
    d->id = id;
    if ((st = weir_device_open(spec, &d->dev)))
        goto free_device;
    weir_device_get_props(d->dev, &d->props, sizeof(d->props));
    if ((st = weir_event_create(d->dev, &(weir_event_options){.timing = true}, &d->epoch)) ||
        (st = weir_event_record(d->epoch, weir_stream_default(d->dev))))
        goto close;
    *out = d;
    return ACL_SUCCESS;

close:
    weir_event_destroy(d->epoch);
    weir_device_close(d->dev);
free_device:
    free(d);
    return fail_status(st, "aclrtSetDevice");
}

aclError device_get(int32_t id, struct device **out)
{
    aclError err = ACL_SUCCESS;

    if (id < 0 || (uint32_t)id >= device_count())
        return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d: there are %u, from 0 on", id,
                    device_count());
    report_begin();
    pthread_mutex_lock(&lock);
    if (!devices[id])
        err = open_device(id, &devices[id]);
    *out = devices[id];
    pthread_mutex_unlock(&lock);
    return err;
}

struct device *device_opened(int32_t id)
{
    struct device *d = NULL;

    pthread_mutex_lock(&lock);
    if (id >= 0 && id < MAX_DEVICES)
        d = devices[id];
    pthread_mutex_unlock(&lock);
    return d;
}

void device_close_all(void)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        struct device *d = device_opened(i);

        if (!d)
            continue;
        weir_event_destroy(d->epoch);
        if (weir_device_close(d->dev)) { /* fails while work or memory still uses the device */
            if (weir_event_create(d->dev, &(weir_event_options){.timing = true}, &d->epoch) ||
                weir_event_record(d->epoch, weir_stream_default(d->dev)))
                d->epoch = NULL;
            continue;
        }
        pthread_mutex_lock(&lock);
        devices[i] = NULL;
        pthread_mutex_unlock(&lock);
        free(d);
    }
}

/* A forked child cannot use the parent's devices: it opens its own. */
void device_forget_all(void)
{
    memset(devices, 0, sizeof devices);
    pthread_mutex_init(&lock, NULL);
}

EXPORT aclError aclrtGetDeviceCount(uint32_t *count)
{
    NEED(count);
    *count = device_count();
    return ACL_SUCCESS;
}

/* A function of libascend_hal: the number of the machine's devices, including those that this
 * process does not see. torch_npu calls it from Python. */
int32_t drvGetDevNum(uint32_t *count);

EXPORT int32_t drvGetDevNum(uint32_t *count)
{
    NEED(count);
    *count = (uint32_t)machine_count();
    return 0;
}

EXPORT aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    NEED(runMode);
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetTsDevice(aclrtTsId tsId)
{
    if (tsId != ACL_TS_ID_AICORE && tsId != ACL_TS_ID_AIVECTOR)
        return FAIL(ACL_ERROR_INVALID_PARAM, "tsId %d is neither 0 nor 1", (int)tsId);
    return ACL_SUCCESS;
}

static aclError check_id(const char *function, int32_t id)
{
    if (id >= 0 && (uint32_t)id < device_count())
        return ACL_SUCCESS;
    return weir_cann_fail_in(function, ACL_ERROR_RT_INVALID_DEVICEID,
                             "device %d: there are %u, from 0 on", id, device_count());
}

EXPORT aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId,
                                         int32_t peerDeviceId)
{
    aclError err;

    NEED(canAccessPeer);
    if ((err = check_id(__func__, deviceId)) || (err = check_id(__func__, peerDeviceId)))
        return err;
    *canAccessPeer = deviceId != peerDeviceId;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    if (flags)
        return FAIL(ACL_ERROR_INVALID_PARAM, "flags are %u, and must be 0", flags);
    return check_id(__func__, peerDeviceId);
}

EXPORT aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId)
{
    return check_id(__func__, peerDeviceId);
}

EXPORT aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId)
{
    int ids[MAX_DEVICES];
    aclError err;

    NEED(logicDevId);
    if ((err = check_id(__func__, userDevid)))
        return err;
    *logicDevId = (uint32_t)userDevid < visible(ids) ? ids[userDevid] : userDevid;
    return ACL_SUCCESS;
}

EXPORT aclError aclrtQueryDeviceStatus(int32_t deviceId, int32_t *deviceStatus)
{
    aclError err;

    NEED(deviceStatus);
    if ((err = check_id(__func__, deviceId)))
        return err;
    *deviceStatus = 0; /* normal */
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active)
{
    struct device *d;
    aclError err;

    if ((err = check_id(__func__, deviceId)))
        return err;
    d = device_opened(deviceId);
    if (flags)
        *flags = 0;
    if (active)
        *active = d && d->primary;
    return ACL_SUCCESS;
}

EXPORT aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)
{
    struct device *d;
    aclError err;

    NEED(value);
    if ((err = device_get((int32_t)deviceId, &d)))
        return err;
    switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = d->props.cores.cube;
        return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = d->props.cores.vector;
        return ACL_SUCCESS;
    default:
        return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "deviceInfo %d is not known",
                    (int)deviceInfo);
    }
}

/* Returns the name by which torch_npu and MindSpore choose code for a machine. For a modelled NPU
 * it follows from the profile; other devices are presented as an A2. */
EXPORT const char *aclrtGetSocName(void)
{
    static const struct {
        const char *device, *soc;
    } names[] = {
        {"npu:a3", "Ascend910_9391"}, {"npu:910b4", "Ascend910B4"}, {"npu:a2", "Ascend910B1"}};
    const char *soc = getenv("WEIR_CANN_SOC"), *spec = getenv("WEIR_DEVICE");

    if (soc && *soc)
        return soc;
    for (size_t i = 0; spec && i < sizeof names / sizeof *names; i++)
        if (!strncmp(spec, names[i].device, strlen(names[i].device)))
            return names[i].soc;
    return "Ascend910B1";
}
