/* Channels of tensors. On weir nothing is ever sent through them. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <time.h>

#include "acl/acl_tdt.h"

struct channel {
    void *handle;
    bool stopped;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static char dataset; /* the object behind every dataset's handle: datasets are always empty */

static struct channel *get(const acltdtChannelHandle *handle)
{
    return handle_get(handle, KIND_CHANNEL);
}

static aclError no_channel(const char *function, const void *handle)
{
    return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "%p is not a channel", handle);
}

EXPORT acltdtChannelHandle *acltdtCreateChannel(uint32_t deviceId, const char *name)
{
    struct channel *c;

    if (deviceId >= device_count() || !name || !(c = calloc(1, sizeof *c))) {
        fail(ACL_ERROR_INVALID_PARAM, "a channel on device %u named %s", deviceId,
             name ? name : "NULL");
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    if (!(c->handle = handle_new(KIND_CHANNEL, c))) {
        free(c);
        return NULL;
    }
    return c->handle;
}

EXPORT acltdtChannelHandle *acltdtCreateChannelWithCapacity(uint32_t deviceId, const char *name,
                                                            size_t capacity)
{
    (void)capacity;
    return acltdtCreateChannel(deviceId, name);
}

EXPORT aclError acltdtStopChannel(acltdtChannelHandle *handle)
{
    struct channel *c = handle_hold(handle, KIND_CHANNEL);

    if (!c)
        return no_channel(__func__, handle);
    pthread_mutex_lock(&c->lock);
    c->stopped = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    handle_release(handle);
    return ACL_SUCCESS;
}

EXPORT aclError acltdtDestroyChannel(acltdtChannelHandle *handle)
{
    struct channel *c;

    acltdtStopChannel(handle); /* wakes threads that wait for a tensor */
    if (!(c = handle_take(handle, KIND_CHANNEL)))
        return no_channel(__func__, handle);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return ACL_SUCCESS;
}

EXPORT aclError acltdtQueryChannelSize(const acltdtChannelHandle *handle, size_t *size)
{
    NEED(size);
    if (!get(handle))
        return no_channel(__func__, handle);
    *size = 0;
    return ACL_SUCCESS;
}

EXPORT aclError acltdtReceiveTensor(const acltdtChannelHandle *handle, acltdtDataset *set,
                                    int32_t timeout)
{
    struct channel *c;
    struct timespec end;
    int late = 0;

    if (!get(handle))
        return no_channel(__func__, handle);
    if (!handle_get(set, KIND_OTHER))
        return FAIL(ACL_ERROR_INVALID_PARAM, "%p is not a dataset", (void *)set);
    if (!(c = handle_hold(handle, KIND_CHANNEL)))
        return no_channel(__func__, handle);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += timeout / 1000;
    end.tv_nsec += timeout % 1000 * 1000000L;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&c->lock);
    while (!c->stopped && !late)
        late = timeout < 0 ? pthread_cond_wait(&c->wake, &c->lock)
                           : pthread_cond_timedwait(&c->wake, &c->lock, &end);
    pthread_mutex_unlock(&c->lock);
    handle_release(handle);
    return FAIL(ACL_ERROR_RT_QUEUE_EMPTY,
                late ? "no tensor within the timeout" : "the channel is stopped");
}

EXPORT aclError acltdtSendTensor(const acltdtChannelHandle *handle, const acltdtDataset *set,
                                 int32_t timeout)
{
    (void)set, (void)timeout;
    if (!get(handle))
        return no_channel(__func__, handle);
    return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no graph on weir reads from a channel");
}

EXPORT acltdtDataset *acltdtCreateDataset(void)
{
    return handle_new(KIND_OTHER, &dataset);
}

EXPORT aclError acltdtDestroyDataset(acltdtDataset *set)
{
    if (!handle_take(set, KIND_OTHER))
        return FAIL(ACL_ERROR_INVALID_PARAM, "%p is not a dataset", (void *)set);
    return ACL_SUCCESS;
}

EXPORT size_t acltdtGetDatasetSize(const acltdtDataset *set)
{
    (void)set;
    return 0;
}

EXPORT const char *acltdtGetDatasetName(const acltdtDataset *set)
{
    (void)set;
    return "";
}

EXPORT acltdtDataItem *acltdtGetDataItem(const acltdtDataset *set, size_t index)
{
    (void)set, (void)index;
    return NULL;
}

EXPORT aclDataType acltdtGetDataTypeFromItem(const acltdtDataItem *dataItem)
{
    (void)dataItem;
    return ACL_DT_UNDEFINED;
}

EXPORT void *acltdtGetDataAddrFromItem(const acltdtDataItem *dataItem)
{
    (void)dataItem;
    return NULL;
}

EXPORT size_t acltdtGetDataSizeFromItem(const acltdtDataItem *dataItem)
{
    (void)dataItem;
    return 0;
}

EXPORT size_t acltdtGetDimNumFromItem(const acltdtDataItem *dataItem)
{
    (void)dataItem;
    return 0;
}

EXPORT aclError acltdtGetDimsFromItem(const acltdtDataItem *dataItem, int64_t *dims, size_t dimNum)
{
    (void)dims, (void)dimNum;
    return FAIL(ACL_ERROR_INVALID_PARAM, "%p is not an item", (const void *)dataItem);
}
