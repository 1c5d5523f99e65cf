/* Memory that other processes of this host can map: memfds. Nothing of it has a name in the file
 * system, so nothing is left when processes die. Peers open it as /proc/PID/fd/N and see by its
 * inode that it is the one that was meant; they map it to be read only. */
#ifndef WEIR_COMM_PROCS_SHARE_H
#define WEIR_COMM_PROCS_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

/* Bytes in a process's shared memory, as it tells others. */
struct weir__shared_place {
    int32_t fd;
    uint32_t reserved;
    uint64_t inode, offset, bytes;
    uint64_t size; /* of a device's memory: all of the piece */
};

/* Memory of its own memfd, aligned to huge pages; NULL if there is none. threads: any. */
void *weir__share_map(size_t size);
/* False if it is not such memory. */
bool weir__share_unmap(void *address, size_t size);
/* Where these bytes are; false if they are not all in one piece of shared memory. */
bool weir__share_find(const void *address, size_t bytes, struct weir__shared_place *place);

/* Another process's memory that is mapped here: one list per process, guarded by the caller. */
struct weir__reached {
    struct weir__reached *next;
    uint64_t inode;
    char *base;
    size_t size;
};
/* The bytes of `place` in the memory of process `pid`, mapped on first use; NULL with the error
 * said. With `writes` they can be written. */
void *weir__share_reach(struct weir__reached **list, uint32_t pid,
                        const struct weir__shared_place *place, bool writes);
void weir__share_leave(struct weir__reached **list);
/* Where the bytes of `place` are in the memory of process `pid` that is mapped here; NULL with the
 * error said if they are not all in it. */
void *weir__reached_at(const struct weir__reached *r, uint32_t pid,
                       const struct weir__shared_place *place);

/* How memory of a device is shown to processes of the same host, where it is not the host's own.
 * `user` is the device. Of `handle` there are WEIR__SHARE_HANDLE bytes. */
enum { WEIR__SHARE_HANDLE = 64 };
struct weir__sharing {
    const char *kind; /* of device, for messages: at most 7 bytes */
    int most_ranks;   /* whose memory a part reads */
    /* As weir__share_find and weir__share_reach. */
    bool (*find)(void *user, const void *address, size_t bytes, struct weir__shared_place *place,
                 unsigned char *handle);
    void *(*reach)(void *user, struct weir__reached **list, uint32_t pid,
                   const struct weir__shared_place *place, const unsigned char *handle);
    void (*leave)(void *user, struct weir__reached **list);
    /* A copy that `find` finds; NULL with the error said. */
    void *(*stage)(void *user, const void *from, size_t bytes);
    void (*unstage)(void *user, void *piece, size_t bytes);
    /* Copies bytes of the device to the host's memory, and the host's to the device as `stage`
     * does; false and NULL with the error said. */
    bool (*fetch)(void *user, void *to, const void *from, size_t bytes);
    void *(*place)(void *user, const void *from, size_t bytes);
    /* The device's queue that all these copies are on; NULL with the error said. */
    void *(*queue)(void *user);
    /* Order between queues of the device: `mark` stands behind what the queue has, and is made if
     * *mark is NULL; what the queue gets from now on follows the mark, if there is one. */
    weir_status (*mark)(void *user, void **mark, void *queue);
    weir_status (*follow)(void *user, void *mark, void *queue);
    void (*forget)(void *user, void *mark);
    /* Around calls of libraries that find the device by the thread. */
    bool (*enter)(void *user);
    void (*exit)(void *user, bool entered);
};

/* Staging: pieces of shared memory for bytes that are not in it. NULL if there is none. */
void *weir__stage_take(size_t bytes);
void weir__stage_give(void *piece, size_t bytes);
/* Gives back to the system what nobody has taken. */
void weir__stage_trim(void);

/* Futexes that several processes sleep on. */
void weir__futex_wait_shared(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void weir__futex_wake_shared(_Atomic uint32_t *word);

#endif
