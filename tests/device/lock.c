/* The mutexes with threads that sleep on them: a lost wakeup would be a hang. */
#include <pthread.h>
#include <time.h>

#include "base/lock.h"
#include "harness/test.h"

enum { THREADS = 4, ROUNDS = 3000 };

struct shared {
    struct weir__mutex lock;
    long count;
};

static void *hammer(void *user)
{
    struct shared *shared = user;

    for (int i = 0; i < ROUNDS; i++) {
        weir__mutex_lock(&shared->lock);
        shared->count++;
        if (i % 64 == 0) /* long enough for the others to fall asleep */
            nanosleep(&(struct timespec){0, 20000}, NULL);
        weir__mutex_unlock(&shared->lock);
    }
    return NULL;
}

TEST(lock, no_thread_sleeps_on_a_free_mutex)
{
    struct shared shared = {.count = 0};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, hammer, &shared));
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(threads[i], NULL));
    CHECK(shared.count == (long)THREADS * ROUNDS);
    CHECK(weir__mutex_try(&shared.lock));
    weir__mutex_unlock(&shared.lock);
}

struct light {
    struct weir__light_mutex lock;
    long count;
};

static void *hammer_light(void *user)
{
    struct light *shared = user;

    for (int i = 0; i < ROUNDS; i++) {
        weir__light_lock(&shared->lock);
        shared->count++;
        if (i % 64 == 0)
            nanosleep(&(struct timespec){0, 20000}, NULL);
        weir__light_unlock(&shared->lock);
    }
    return NULL;
}

TEST(lock, no_thread_sleeps_on_a_free_light_mutex)
{
    struct light shared = {.count = 0};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, hammer_light, &shared));
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(threads[i], NULL));
    CHECK(shared.count == (long)THREADS * ROUNDS);
    CHECK(weir__light_try(&shared.lock));
    weir__light_unlock(&shared.lock);
}
