/* Captures, and the graphs made from them. */
#ifndef WEIR_CANN_CAPTURE_H
#define WEIR_CANN_CAPTURE_H

#include "runtime/runtime.h"

/* The part of a graph between two cuts; or an inner graph that runs if a word of memory is not
 * 0. */
struct segment {
    uint64_t id;
    weir_graph *graph;
    weir_plan *plan;
    struct condition *when; /* NULL: it runs unconditionally */
    struct model *child;
};

/* A captured call of a host function. */
struct host_call {
    aclrtCallback fn;
    void *user;
    void (*release)(void *user); /* called when the graph is freed; may be NULL */
    struct host_call *next;
};

struct model {
    _Atomic int refs; /* one for the handle or the parent graph, one per run as an inner graph */
    void *handle;
    struct model *parent; /* the graph that contains it, or NULL */
    bool compiled;
    uint32_t id;
    char name[128];
    struct device *device;
    struct segment *segments;
    int nsegments;
    struct task_group **groups;
    int ngroups;
    struct host_call *host_calls; /* referenced by nodes */
    struct condition *conditions; /* created for this graph */
    pthread_mutex_t lock;         /* runs of plans exclude their replacement */
};

struct task_group {
    void *handle;
    struct model *model;
    int segment;
};

struct capture {
    uint64_t id;
    struct capture *next; /* in the list of active captures */
    pthread_mutex_t lock; /* serialises launches */
    struct model *model;
    struct stream **members; /* [0] began it */
    int nmembers;
    bool group;             /* a task group is open */
    struct segment *update; /* the capture replaces this segment of `updates`; NULL: none */
    struct task_group *updates;
    _Atomic bool broken;
    char reason[128];
};

struct segment *capture_segment(struct capture *capture);

/* ---- model.c ---- */

/* Creates a graph with one empty segment. */
aclError model_new(struct device *device, struct model **out);
/* Invalidates the handle and drops its reference. */
void model_free(struct model *model);
void model_release(struct model *model);
/* Queues the whole graph on the stream. */
aclError model_run(struct model *model, struct stream *stream);
/* Starts a new segment for further captured work. */
aclError model_cut(struct model *model);
/* Makes a task group of the last segment. */
aclError model_group(struct model *model, struct task_group **out);
/* Returns a record that lives as long as the graph; NULL when out of memory. */
struct host_call *model_host_call(struct model *model);
aclError model_compile(struct model *model);
/* Replaces the group's segment by the first segment of `from`. */
aclError model_replace(struct task_group *group, struct model *from);

/* ---- condition.c ---- */

void condition_free_all(struct model *model);
/* Queues writes of the conditions' defaults, before the first segment of a run. */
aclError condition_reset(struct model *model, struct stream *stream);
/* Queues a segment that runs if its word is not 0 when the stream reaches it. */
aclError condition_run(struct model *model, const struct segment *segment, struct stream *stream);
/* Waits for conditions that are being evaluated. */
void condition_stop(void);
void condition_forget(void);

#endif
