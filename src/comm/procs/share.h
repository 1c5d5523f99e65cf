/* Memory that other processes of this host can map: memfds. They have no name in the file system,
 * so nothing is left behind when processes die. Peers open one as /proc/PID/fd/N, check its inode,
 * and map it, read-only unless they must write. */
#ifndef WEIR_COMM_PROCS_SHARE_H
#define WEIR_COMM_PROCS_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

/* Identifies bytes in a process's shared memory to other processes. */
struct weir__shared_place {
    int32_t fd;
    uint32_t reserved;
    uint64_t inode, offset, bytes;
    uint64_t size; /* device memory: the size of the whole allocation */
};

/* Maps a new memfd, aligned to huge pages; NULL on failure. threads: any. */
void *weir__share_map(size_t size);
/* False if `address` is not from weir__share_map. */
bool weir__share_unmap(void *address, size_t size);
/* Fills *place for these bytes; false if they are not all in one piece of shared memory. */
bool weir__share_find(const void *address, size_t bytes, struct weir__shared_place *place);

/* Memory of another process that is mapped here. The caller keeps and guards a list per process. */
struct weir__reached {
    struct weir__reached *next;
    uint64_t inode;
    char *base;
    size_t size;
};
/* Returns the address here of the bytes of `place` in process `pid`. Maps the memory on first use,
 * with `writes` writable. NULL with the thread's error set. */
void *weir__share_reach(struct weir__reached **list, uint32_t pid,
                        const struct weir__shared_place *place, bool writes);
/* Unmaps all memory of the list. */
void weir__share_leave(struct weir__reached **list);
/* Returns the address of the bytes of `place` in `r`, mapped memory of process `pid`. NULL with the
 * thread's error set if they are not all in it. */
void *weir__reached_at(const struct weir__reached *r, uint32_t pid,
                       const struct weir__shared_place *place);

/* How device memory that is not host memory is shared with processes of the same host. `user` is
 * the device. A `handle` has WEIR__SHARE_HANDLE bytes. */
enum { WEIR__SHARE_HANDLE = 64 };
struct weir__sharing {
    const char *kind; /* the kind of device, for messages: at most 7 bytes */
    int most_ranks;   /* the most ranks whose memory a part can read */
    /* Like weir__share_find, weir__share_reach and weir__share_leave. */
    bool (*find)(void *user, const void *address, size_t bytes, struct weir__shared_place *place,
                 unsigned char *handle);
    void *(*reach)(void *user, struct weir__reached **list, uint32_t pid,
                   const struct weir__shared_place *place, const unsigned char *handle);
    void (*leave)(void *user, struct weir__reached **list);
    /* Copies device memory to device memory that `find` can find; NULL with the thread's error set.
     * `unstage` frees it. */
    void *(*stage)(void *user, const void *from, size_t bytes);
    void (*unstage)(void *user, void *piece, size_t bytes);
    /* Copies device memory to host memory; false with the thread's error set. */
    bool (*fetch)(void *user, void *to, const void *from, size_t bytes);
    /* Copies host memory to new device memory, which `unstage` frees; NULL with the thread's error
     * set. */
    void *(*place)(void *user, const void *from, size_t bytes);
    /* Returns the device's queue on which these copies run; NULL with the thread's error set. */
    void *(*queue)(void *user);
    /* Order between queues of the device. `mark` records a mark after the queue's work so far, and
     * allocates it if *mark is NULL. `follow` makes later work of the queue wait for the mark; NULL
     * is no mark. `forget` frees it. */
    weir_status (*mark)(void *user, void **mark, void *queue);
    weir_status (*follow)(void *user, void *mark, void *queue);
    void (*forget)(void *user, void *mark);
    /* Make the device the thread's current one around calls of libraries that need that. */
    bool (*enter)(void *user);
    void (*exit)(void *user, bool entered);
};

/* A pool of shared memory for copies of bytes that are not in shared memory. NULL when out of
 * memory. */
void *weir__stage_take(size_t bytes);
void weir__stage_give(void *piece, size_t bytes);
/* Frees all pieces that are not taken. */
void weir__stage_trim(void);

/* Futexes in memory that several processes share. */
void weir__futex_wait_shared(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void weir__futex_wake_shared(_Atomic uint32_t *word);

#endif
