/* Messages go to one listener: the user's function, or stderr if WEIR_LOG is set. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static weir_log_fn listener;
static void *listener_user;
static atomic_int threshold = -1; /* no message passes */

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void to_stderr(void *user, weir_log_level level, const char *text)
{
    (void)user;
    fprintf(stderr, "weir %s: %s\n", level_names[level], text);
}

static void from_environment(void)
{
    const char *want = getenv("WEIR_LOG");

    for (size_t i = 0; want && i < weir__countof(level_names); i++)
        if (!strcmp(want, level_names[i])) {
            listener = to_stderr;
            atomic_store(&threshold, (int)i);
        }
}

void weir_log_set(weir_log_fn fn, void *user, weir_log_level level)
{
    pthread_once(&once, from_environment);
    pthread_mutex_lock(&lock);
    listener = fn;
    listener_user = user;
    atomic_store(&threshold, fn ? (int)level : -1);
    pthread_mutex_unlock(&lock);
}

void weir__log(weir_log_level level, const char *format, ...)
{
    char text[4096];
    va_list args;

    pthread_once(&once, from_environment);
    if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (listener)
        listener(listener_user, level, text);
    pthread_mutex_unlock(&lock);
}
