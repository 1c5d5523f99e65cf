#include "base/progress.h"

#include <stddef.h>

static _Thread_local struct {
    weir__progress_fn tell;
    void *user;
} listener;

void weir__progress_set(weir__progress_fn tell, void *user)
{
    listener.tell = tell;
    listener.user = user;
}

void weir__progress_report(const char *doing, double share)
{
    if (listener.tell)
        listener.tell(listener.user, doing, share);
}
