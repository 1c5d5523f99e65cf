/* Words of device memory that streams write and wait for, both eagerly and in captured graphs. */
#include "runtime/runtime.h"

#include <stdlib.h>

struct value {
    _Atomic uint64_t *word;
    uint64_t value;
    weir_tensor *memory; /* kept alive while a write or wait is pending */
};

static void value_free(void *user)
{
    struct value *v = user;

    weir_tensor_release(v->memory);
    free(v);
}

/* The host reads and writes the word, so this fails on devices whose memory the host cannot
 * access. */
static aclError value_new(const char *function, void *address, uint64_t value, struct stream *s,
                          struct value **out)
{
    struct value *v;
    aclError err;

    *out = NULL;
    if (!address)
        return weir_cann_fail_in(function, ACL_ERROR_INVALID_PARAM, "devAddr is NULL");
    if (!(s->context->device->props.features & WEIR_FEATURE_HOST_MEMORY))
        return weir_cann_fail_in(function, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                                 "the host cannot read memory of %s",
                                 s->context->device->props.name);
    if ((uintptr_t)address % sizeof(uint64_t))
        return weir_cann_fail_in(function, ACL_ERROR_RT_ADDR_UNALIGNED,
                                 "%p is not a multiple of 8 bytes", address);
    if (!(v = calloc(1, sizeof *v)))
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "a value");
    if ((err = allocation_bytes(function, address, sizeof(uint64_t), &v->memory))) {
        free(v);
        return err;
    }
    v->word = address;
    v->value = value;
    *out = v;
    return ACL_SUCCESS;
}

static void write_value(void *user)
{
    const struct value *v = user;

    atomic_store(v->word, v->value);
    watch_wake();
}

static void write_once(void *user, weir_status status)
{
    if (!status)
        write_value(user);
    value_free(user);
}

EXPORT aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream)
{
    struct stream *s;
    struct value *v;
    weir_status st;
    aclError err;

    if (flag)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flag %#x is not 0", flag);
    if ((err = stream_get(stream, &s)) || (err = value_new(__func__, devAddr, value, s, &v)))
        return err;
    if (s->capture)
        err = capture_host_owned(__func__, s, write_value, v, value_free);
    else if ((st = weir_stream_callback(s->weir, write_once, v)))
        err = fail_status(st, __func__);
    if (err)
        value_free(v);
    return err;
}

static enum watch_state look(void *user)
{
    const struct value *v = user;

    return atomic_load(v->word) == v->value ? WATCH_OVER : WATCH_WAITS;
}

EXPORT aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream)
{
    struct stream *s;
    struct value *v;
    aclError err;

    if (flag != ACL_STREAM_WAIT_VALUE_EQ)
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flag %#x is not ACL_STREAM_WAIT_VALUE_EQ", flag);
    if ((err = stream_get(stream, &s)) || (err = value_new(__func__, devAddr, value, s, &v)))
        return err;
    return watch_stream(stream, look, v, value_free, "the wait for a value was abandoned");
}
