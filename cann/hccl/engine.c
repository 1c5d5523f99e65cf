/* The thread of a communicator, which moves the bytes of its jobs through the slots. */
#include "comm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Counts of idle iterations: the thread sleeps longer after LONG_IDLE, and checks every LOOK_EVERY
 * iterations whether its peers are alive. */
enum { LONG_IDLE = 2000, LOOK_EVERY = 256 };

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void job_free(void *user)
{
    struct job *j = user;

    free(j->parts);
    free(j->inbox);
    free(j);
}

void engine_begin(void *user, struct weir_cann_deferred *deferred)
{
    struct job *j = user;
    struct comm *c = j->comm;

    for (int i = 0; i < j->nparts; i++)
        j->parts[i].done = 0; /* a captured job runs once per run of the graph */
    j->deferred = deferred;
    j->began_ns = now_ns();
    pthread_mutex_lock(&c->lock);
    j->next = NULL;
    *c->last = j;
    c->last = &j->next;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

/* Moves as many bytes as fit into the slot, or are in it. The bytes are published by storing the
 * counter with release and loading it with acquire. */
static bool move(struct comm *c, struct part *p)
{
    uint32_t from = p->sends ? c->rank : (uint32_t)p->peer,
             to = p->sends ? (uint32_t)p->peer : c->rank;
    size_t place = (size_t)from * c->nranks + to;
    struct pair *pair = &c->pairs[place];
    uint64_t put = atomic_load_explicit(&pair->put, memory_order_acquire),
             taken = atomic_load_explicit(&pair->taken, memory_order_acquire);
    uint64_t at = p->sends ? put : taken, n = p->sends ? c->slot - (put - taken) : put - taken;
    char *slot = c->slots + place * c->slot;

    if (n > p->size - p->done)
        n = p->size - p->done;
    if (!n)
        return false;
    for (uint64_t left = n; left;) {
        uint64_t offset = at % c->slot, piece = c->slot - offset < left ? c->slot - offset : left;

        if (p->sends)
            memcpy(slot + offset, p->bytes + p->done, piece);
        else
            memcpy(p->bytes + p->done, slot + offset, piece);
        p->done += piece;
        at += piece;
        left -= piece;
    }
    atomic_store_explicit(p->sends ? &pair->put : &pair->taken, at, memory_order_release);
    return true;
}

/* True if the slot has room to send, or bytes to receive. */
static bool may_move(const struct comm *c, const struct part *p)
{
    const struct pair *pair = &c->pairs[p->sends ? (size_t)c->rank * c->nranks + (size_t)p->peer
                                                 : (size_t)p->peer * c->nranks + c->rank];
    uint64_t under_way = atomic_load_explicit(&pair->put, memory_order_relaxed) -
                         atomic_load_explicit(&pair->taken, memory_order_relaxed);

    return p->sends ? under_way < c->slot : under_way > 0;
}

/* True if an earlier message of the same pair and direction, in this job or an earlier one, is not
 * complete. */
static bool blocked(const struct job *first, const struct part *part)
{
    for (const struct job *j = first;; j = j->next)
        for (int i = 0; i < j->nparts; i++) {
            if (&j->parts[i] == part)
                return false;
            if (j->parts[i].peer == part->peer && j->parts[i].sends == part->sends &&
                j->parts[i].done < j->parts[i].size)
                return true;
        }
}

static bool step(struct comm *c, struct job *first, struct job *j, bool *over)
{
    bool moved = false;

    *over = true;
    for (int i = 0; i < j->nparts; i++) {
        struct part *p = &j->parts[i];

        if (p->done < p->size && may_move(c, p) && !blocked(first, p))
            moved |= move(c, p);
        *over &= p->done == p->size;
    }
    return moved;
}

/* Names the ranks whose bytes a job is waiting for. */
static void describe_missing(struct comm *c, struct job *j, char *out, size_t size)
{
    int n = snprintf(out, size, "%s on communicator %s: rank %u waited %lld ms for rank", j->name,
                     c->name, c->rank, (long long)(c->timeout_ns / 1000000));
    int last = -1;

    for (int i = 0; i < j->nparts && n > 0 && (size_t)n < size; i++)
        if (j->parts[i].done < j->parts[i].size && j->parts[i].peer != last) {
            n +=
                snprintf(out + n, size - (size_t)n, "%s %d", last < 0 ? "" : ",", j->parts[i].peer);
            last = j->parts[i].peer;
        }
}

/* Breaks the communicator if a rank that the first job waits for has ended. A rank counts as gone
 * only at the second look without progress: the first time, its last bytes may still be in a
 * slot. */
static void look_for_the_dead(struct comm *c, const struct job *j, int *gone)
{
    for (int i = 0; i < j->nparts; i++) {
        uint32_t pid = atomic_load(&c->shared->joined[j->parts[i].peer]);
        char reason[256];

        if (j->parts[i].done == j->parts[i].size || !kill((pid_t)pid, 0) || errno != ESRCH)
            continue;
        if (*gone != j->parts[i].peer) {
            *gone = j->parts[i].peer;
            return;
        }
        snprintf(reason, sizeof reason,
                 "%s on communicator %s: rank %u waits for rank %d, process %u, which has ended",
                 j->name, c->name, c->rank, *gone, pid);
        comm_break(c, reason);
        return;
    }
}

static void fail_all(struct comm *c, struct job *first)
{
    while (first) {
        struct job *next = first->next;

        weir_cann_resume(first->deferred, c->shared->reason);
        first = next;
    }
}

void *engine_run(void *user)
{
    struct comm *c = user;
    struct job *active = NULL, **end = &active;
    unsigned idle = 0;
    int gone = -1;

    for (;;) {
        bool moved = false;

        pthread_mutex_lock(&c->lock);
        while (!active && !c->first && !c->stops)
            pthread_cond_wait(&c->wake, &c->lock);
        if (c->stops) {
            *end = c->first;
            pthread_mutex_unlock(&c->lock);
            snprintf(c->shared->reason, sizeof c->shared->reason, "the communicator was destroyed");
            fail_all(c, active);
            return NULL;
        }
        if (c->first) {
            *end = c->first;
            end = c->last;
            c->first = NULL;
            c->last = &c->first;
        }
        pthread_mutex_unlock(&c->lock);
        for (struct job **link = &active; *link;) {
            struct job *j = *link;
            bool over;

            moved |= step(c, active, j, &over);
            if (!over) {
                link = &j->next;
                continue;
            }
            if (!(*link = j->next))
                end = link;
            if (j->finish)
                j->finish(j);
            weir_cann_resume(j->deferred, NULL);
            moved = true;
        }
        gone = moved ? -1 : gone;
        if (active && idle > LONG_IDLE && idle % LOOK_EVERY == 0)
            look_for_the_dead(c, active, &gone);
        if (active && now_ns() - active->began_ns > (uint64_t)c->timeout_ns) {
            char reason[256];

            describe_missing(c, active, reason, sizeof reason);
            comm_break(c, reason);
        }
        if (atomic_load(&c->shared->broken)) {
            c->error = HCCL_E_NETWORK;
            fail_all(c, active);
            active = NULL;
            end = &active;
        }
        /* Spin first, then sleep, for at most a fifth of a millisecond. */
        idle = moved ? 0 : idle + 1;
        if (idle > 200)
            nanosleep(&(struct timespec){.tv_nsec = idle < LONG_IDLE ? 20000 : 200000}, NULL);
    }
}
