/* The wait hook: a function that a host thread calls while it waits. */
#include "device/device.h"

static _Thread_local weir_wait_hook_fn hook;
static _Thread_local void *hook_user;
static _Thread_local int shields;

void weir_wait_hook_set(weir_wait_hook_fn fn, void *user)
{
    hook = fn;
    hook_user = user;
}

bool weir__wait_has_hook(void)
{
    return hook && !shields;
}

void weir__wait_shield(int change)
{
    shields += change;
}

weir_status weir__wait_check(const weir_stream *s)
{
    if (!hook || !hook(hook_user))
        return WEIR_OK;
    return weir__fail(WEIR_EINTERRUPTED,
                      "the wait for stream '%s' was interrupted; its work continues", s->name);
}
