/* What may use which bytes, decided by brute force.
 *
 * The oracle keeps for each stream the set of all commands that whatever is queued
 * on it next is ordered after, and for every buffer there ever was its bytes and
 * the commands that used them. It knows nothing of clocks and numbers: an event is
 * a set, a wait is a union. What is really over it learns from the commands, each
 * of which sets a flag as the last thing it does.
 */
#ifndef TESTS_MEMORY_ORACLE_H
#define TESTS_MEMORY_ORACLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "weir/memory.h"

enum { ORACLE_STREAMS = 8, ORACLE_COMMANDS = 2048, ORACLE_USES = 64 };

struct oracle_set {
    uint64_t bits[ORACLE_COMMANDS / 64];
};

struct oracle_buffer {
    uint64_t id;
    weir_buffer *handle; /* NULL once freed */
    char *address;
    size_t size;
    int stream;
    struct oracle_set born;   /* what the owner was ordered after when it got the bytes */
    struct oracle_set before; /* earlier uses of the bytes: over when this one's start */
    unsigned nuses;
    unsigned uses[ORACLE_USES];
    struct oracle_buffer *next;
};

struct oracle {
    unsigned ncommands;
    struct oracle_set after[ORACLE_STREAMS]; /* what each stream's next command comes after */
    struct oracle_set known;                 /* what the host knows to be over */
    atomic_bool over[ORACLE_COMMANDS];
    struct oracle_buffer *buffers; /* all that ever were, the newest first */
    uint64_t nbuffers;
    int nlive;
};

void oracle_fini(struct oracle *o);

void oracle_unite(struct oracle_set *into, const struct oracle_set *set);
bool oracle_within(const struct oracle_set *set, const struct oracle_set *whole);

/* A command queued on the stream; its number. */
unsigned oracle_command(struct oracle *o, int stream);
void oracle_use(struct oracle *o, struct oracle_buffer *b, unsigned command);

/* The host waited for the stream, or (-1) for all. */
void oracle_host_sync(struct oracle *o, int stream);

/* The pool gave bytes to the stream. The case fails if they are somebody's, or if an
 * earlier use of them is neither over nor ordered before what the stream does next.
 * `waited`: the pool says that it made the stream wait for whoever used this many bytes
 * from the buffer's first on; 0 if it did not. */
struct oracle_buffer *oracle_alloc(struct oracle *o, weir_buffer *handle, int stream,
                                   size_t waited);
void oracle_free(struct oracle *o, struct oracle_buffer *b);

/* Fails the case unless the pool's blocks tile its segments, the live ones are those
 * that the oracle knows, and the statistics are their sums. */
void oracle_check_blocks(const struct oracle *o, weir_device *dev);

/* For kernels: everything that used the bytes before is over. */
bool oracle_bytes_are_free(const struct oracle *o, const struct oracle_buffer *b);

#endif
