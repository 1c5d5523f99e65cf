/* An allocator and a driver that fail when told to; the allocator knows what is still held. */
#ifndef TESTS_FAULTS_INJECT_H
#define TESTS_FAULTS_INJECT_H

#include "memory/helpers.h"

/* Makes it the library's allocator, for the rest of the process. */
void inject_install(void);

/* The n-th allocation from now on fails, once. */
void inject_arm(long n);
/* The same for calls of the device's driver, in driver.c. */
void inject_arm_driver(weir_device *dev, long n);
/* Nothing fails any more; whether something did. */
bool inject_disarm(void);
bool inject_disarm_driver(void);
/* What the driver's failing calls return. */
#define INJECT_DRIVER_STATUS WEIR_EIO

/* Allocations not given back. */
long inject_live(void);

/* What a call is tried on, made anew for each attempt. */
enum { WORLD_STREAMS = 12, WORLD_TENSORS = 20, WORLD_EXTRA = 16 };

struct world {
    weir_device *dev;
    weir_stream *s, *other;
    weir_stream *streams[WORLD_STREAMS]; /* streams[0] is s, streams[1] is other */
    weir_tensor *tensors[WORLD_TENSORS]; /* f32[4, 6] on s */
    weir_buffer *buffers[WORLD_TENSORS];
    weir_event *event, *timed;
    weir_tensor *extra[WORLD_EXTRA]; /* what the test's own preparation adds */
    struct gate gate;                /* opened after the call, for preparations that hold s */
    weir_graph *graph;               /* if the test's preparation or call makes them */
    weir_plan *plan;
    weir_memory_stats before; /* what a call that fails leaves: as at its start, or as at the
                               * start of the step that failed if the call says so */
    int done;                 /* what a call of several steps has got to: it goes on from there */
};

/* A call: WEIR_OK, or an error with every output NULL and the world as it was. What it
 * makes it gives back. */
typedef weir_status (*inject_call)(struct world *w);

/* More for the world, before anything fails; may be NULL. */
typedef void (*inject_prepare)(struct world *w);

/* Fails the 1st, 2nd, 3rd, ... allocation of the call until it needs no more: each time it
 * must say so, leave nothing behind, and succeed when it is repeated. The number of
 * allocations that could fail. */
int inject_each(const char *name, const char *spec, inject_call call);
int inject_each_in(const char *name, const char *spec, inject_prepare prepare, inject_call call);

/* The same for the calls that queue work on the driver, open streams, map memory and make
 * programs. */
int inject_each_driver_call(const char *name, const char *spec, inject_prepare prepare,
                            inject_call call);

#endif
