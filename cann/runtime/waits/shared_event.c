/* Events between processes of this machine and user: two counters in a shared page. A record takes
 * the next number from `issued`; it has completed when `done` has reached that number. */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MARK 0x746e657672696577ull /* "weirvent" */

struct page {
    uint64_t mark;
    _Atomic uint64_t issued, done;
    _Atomic uint32_t recorder; /* the process that recorded last */
};

/* The contents of the handle, whose size AscendCL defines. */
struct text {
    uint64_t mark, inode;
    uint32_t pid, fd;
};

struct shared_event {
    _Atomic int refs; /* one for the event, one per queued record or wait */
    struct page *page;
    struct text text;
};

void shared_event_free(struct shared_event *e)
{
    if (!e || atomic_fetch_sub(&e->refs, 1) > 1)
        return;
    if (e->page)
        munmap(e->page, sizeof *e->page);
    if (e->text.pid == (uint32_t)getpid() && e->text.mark)
        close((int)e->text.fd);
    free(e);
}

static struct shared_event *event_new(int fd)
{
    struct shared_event *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    e->refs = 1;
    e->page = mmap(NULL, sizeof *e->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (e->page != MAP_FAILED)
        return e;
    free(e);
    return NULL;
}

aclError shared_event_create(const char *function, struct shared_event **out)
{
    int fd = memfd_create("weir event", MFD_CLOEXEC);
    struct stat st;

    *out = NULL;
    if (fd < 0 || ftruncate(fd, sizeof(struct page)) || fstat(fd, &st) || !(*out = event_new(fd))) {
        if (fd >= 0)
            close(fd);
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "an event between processes");
    }
    (*out)->page->mark = MARK;
    (*out)->text = (struct text){MARK, st.st_ino, (uint32_t)getpid(), (uint32_t)fd};
    return ACL_SUCCESS;
}

void shared_event_export(const struct shared_event *e, aclrtIpcEventHandle *handle)
{
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &e->text, sizeof e->text);
}

aclError shared_event_import(const char *function, const aclrtIpcEventHandle *handle,
                             struct shared_event **out)
{
    struct text t;
    char path[48];
    struct stat st;
    int fd = -1;

    *out = NULL;
    memcpy(&t, handle, sizeof t);
    if (t.mark != MARK)
        return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                                 "the handle is none that aclrtIpcGetEventHandle wrote");
    snprintf(path, sizeof path, "/proc/%u/fd/%u", t.pid, t.fd);
    if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0 || fstat(fd, &st) || st.st_ino != t.inode ||
        st.st_size < (off_t)sizeof(struct page)) {
        if (fd >= 0)
            close(fd);
        return weir_cann_fail_in(function, ACL_ERROR_RT_PARAM_INVALID,
                                 "process %u, whose event it is, has destroyed it or has ended",
                                 t.pid);
    }
    *out = event_new(fd);
    close(fd);
    if (!*out)
        return weir_cann_fail_in(function, ACL_ERROR_BAD_ALLOC, "an event between processes");
    (*out)->text = t;
    if (t.pid == (uint32_t)getpid())
        (*out)->text.mark = 0; /* the file descriptor belongs to the other process */
    return ACL_SUCCESS;
}

/* ---- records ---- */

struct record {
    struct shared_event *event;
    uint64_t number;
};

static void reached(void *user, weir_status status)
{
    struct record *r = user;
    struct page *p = r->event->page;
    uint64_t done = atomic_load(&p->done);

    (void)status; /* failed work completes an event as well, as with any event */
    while (done < r->number && !atomic_compare_exchange_weak(&p->done, &done, r->number))
        ;
    watch_wake();
    shared_event_free(r->event);
    free(r);
}

aclError shared_event_record(struct shared_event *e, struct stream *s)
{
    struct record *r = malloc(sizeof *r);
    weir_status st;

    if (!r)
        return fail(ACL_ERROR_BAD_ALLOC, "a record of an event");
    atomic_fetch_add(&e->refs, 1);
    atomic_store(&e->page->recorder, (uint32_t)getpid());
    *r = (struct record){e, atomic_fetch_add(&e->page->issued, 1) + 1};
    if (!(st = weir_stream_callback(s->weir, reached, r)))
        return ACL_SUCCESS;
    reached(r, st); /* complete it now, so that nobody waits for it */
    return fail_status(st, "aclrtRecordEvent");
}

/* ---- waits ---- */

struct wait {
    struct shared_event *event;
    uint64_t number;
    unsigned looks;
};

static enum watch_state look(void *user)
{
    struct wait *w = user;
    struct page *p = w->event->page;

    if (atomic_load(&p->done) >= w->number)
        return WATCH_OVER;
    if (++w->looks % 64 || process_lives(atomic_load(&p->recorder)))
        return WATCH_WAITS;
    return atomic_load(&p->done) >= w->number ? WATCH_OVER : WATCH_FAILED;
}

static void wait_free(void *user)
{
    struct wait *w = user;

    shared_event_free(w->event);
    free(w);
}

bool shared_event_done(struct shared_event *e)
{
    return atomic_load(&e->page->done) >= atomic_load(&e->page->issued);
}

bool shared_event_foreign(struct shared_event *e)
{
    return atomic_load(&e->page->recorder) != (uint32_t)getpid();
}

aclError shared_event_wait(struct shared_event *e, aclrtStream stream)
{
    struct wait *w;

    if (shared_event_done(e))
        return ACL_SUCCESS;
    if (!(w = malloc(sizeof *w)))
        return fail(ACL_ERROR_BAD_ALLOC, "a wait for an event");
    atomic_fetch_add(&e->refs, 1);
    *w = (struct wait){.event = e, .number = atomic_load(&e->page->issued)};
    return watch_stream(stream, look, w, wait_free,
                        "the process that recorded the event has ended before it was reached");
}

aclError shared_event_sync(const char *function, struct shared_event *e, int32_t timeout_ms)
{
    struct wait w = {.event = e, .number = atomic_load(&e->page->issued)};
    const struct timespec pause = {0, 50000};

    for (int64_t left = (int64_t)timeout_ms * 20;; left--) {
        switch (look(&w)) {
        case WATCH_OVER:
            return ACL_SUCCESS;
        case WATCH_FAILED:
            return weir_cann_fail_in(function, ACL_ERROR_RT_IPC_ERROR,
                                     "process %u recorded the event and has ended",
                                     atomic_load(&e->page->recorder));
        case WATCH_WAITS:
            if (timeout_ms >= 0 && left <= 0)
                return weir_cann_fail_in(function, ACL_ERROR_RT_WAIT_TIMEOUT,
                                         "process %u has not reached it",
                                         atomic_load(&e->page->recorder));
        }
        nanosleep(&pause, NULL);
    }
}
