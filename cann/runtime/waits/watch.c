/* Lets streams wait for a word of memory. One thread polls the words, since another process or a
 * kernel may write them without notice. A waiting stream holds no core and no thread. */
#include "runtime/runtime.h"

#include <stdlib.h>
#include <time.h>

/* The `user` of weir_cann_defer. In a captured graph it lives as long as the graph. */
struct watch {
    enum watch_state (*look)(void *user);
    void (*release)(void *user);
    void *user;
    const char *failure;
};

struct waiting {
    struct watch *watch;
    struct weir_cann_deferred *deferred;
    struct waiting *next;
};

static struct waiting *all;
static bool runs, stops;
static uint64_t wakes;
static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

enum { SHORTEST_NS = 20000, LONGEST_NS = 1000000 };

void watch_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&changed, NULL);
    all = NULL;
    runs = stops = false;
}

void watch_wake(void)
{
    pthread_mutex_lock(&lock);
    wakes++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* Removes and returns a wait that has ended, or NULL. The caller holds the lock. */
static struct waiting *take_over(enum watch_state *state)
{
    for (struct waiting **link = &all; *link; link = &(*link)->next) {
        struct waiting *w = *link;

        *state = stops ? WATCH_FAILED : w->watch->look(w->watch->user);
        if (*state != WATCH_WAITS) {
            *link = w->next;
            return w;
        }
    }
    return NULL;
}

static void *look_at_all(void *unused)
{
    long pause = SHORTEST_NS;

    (void)unused;
    pthread_mutex_lock(&lock);
    while (all || !stops) {
        enum watch_state state;
        struct waiting *w = take_over(&state);
        uint64_t seen = wakes;

        if (w) {
            const char *failure = stops ? "the runtime was finalised" : w->watch->failure;

            pthread_mutex_unlock(&lock);
            weir_cann_resume(w->deferred, state == WATCH_OVER ? NULL : failure);
            free(w);
            pthread_mutex_lock(&lock);
            pause = SHORTEST_NS;
        } else if (!all) {
            pthread_cond_wait(&changed, &lock);
            pause = SHORTEST_NS;
        } else {
            struct timespec until;

            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += pause;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&changed, &lock, &until);
            pause = wakes != seen ? SHORTEST_NS : pause * 2 < LONGEST_NS ? pause * 2 : LONGEST_NS;
        }
    }
    runs = false;
    pthread_mutex_unlock(&lock);
    return NULL;
}

void watch_stop(void)
{
    bool ran;

    pthread_mutex_lock(&lock);
    ran = runs;
    stops = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    if (ran)
        pthread_join(thread, NULL);
    pthread_mutex_lock(&lock);
    stops = false;
    pthread_mutex_unlock(&lock);
}

/* Called when the stream reaches the wait: from now on it is polled. */
static void begin(void *user, struct weir_cann_deferred *deferred)
{
    struct waiting *w = malloc(sizeof *w);
    bool refused = !w;

    if (w) {
        *w = (struct waiting){.watch = user, .deferred = deferred};
        pthread_mutex_lock(&lock);
        if (!runs && (refused = pthread_create(&thread, NULL, look_at_all, NULL)))
            free(w);
        if (!refused) {
            runs = true;
            w->next = all;
            all = w;
            pthread_cond_signal(&changed);
        }
        pthread_mutex_unlock(&lock);
    }
    if (refused)
        weir_cann_resume(deferred, "out of memory for a wait");
}

static void drop(void *user)
{
    struct watch *w = user;

    if (w->release)
        w->release(w->user);
    free(w);
}

aclError watch_stream(aclrtStream stream, enum watch_state (*look)(void *user), void *user,
                      void (*release)(void *user), const char *failure)
{
    struct watch *w = malloc(sizeof *w);

    if (w) {
        *w = (struct watch){look, release, user, failure};
        return weir_cann_defer(stream, begin, w, drop);
    }
    if (release)
        release(user);
    return fail(ACL_ERROR_BAD_ALLOC, "a wait of a stream");
}
