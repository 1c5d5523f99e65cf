/* Captures and what they become. */
#ifndef WEIR_CANN_CAPTURE_H
#define WEIR_CANN_CAPTURE_H

#include "runtime/runtime.h"

/* A graph between two cuts; or another graph that runs if a word of memory is not 0. */
struct segment {
    uint64_t id;
    weir_graph *graph;
    weir_plan *plan;
    struct condition *when; /* NULL: it is a graph of its own */
    struct model *child;
};

/* A captured function of the host. */
struct host_call {
    aclrtCallback fn;
    void *user;
    void (*release)(void *user); /* when the graph goes; NULL */
    struct host_call *next;
};

struct model {
    _Atomic int refs; /* the handle or the graph that it is a part of, and runs of it as a child */
    void *handle;
    struct model *parent; /* NULL: it is no part of another graph */
    bool compiled;
    uint32_t id;
    char name[128];
    struct device *device;
    struct segment *segments;
    int nsegments;
    struct task_group **groups;
    int ngroups;
    struct host_call *host_calls; /* that nodes refer to */
    struct condition *conditions; /* made for it */
    pthread_mutex_t lock;         /* plans that are run, against those that are replaced */
};

struct task_group {
    void *handle;
    struct model *model;
    int segment;
};

struct capture {
    uint64_t id;
    struct capture *next; /* of those that last */
    pthread_mutex_t lock; /* one launch at a time */
    struct model *model;
    struct stream **members; /* [0] began it */
    int nmembers;
    bool group;             /* one is open */
    struct segment *update; /* what is captured stands for this segment of `updates` */
    struct task_group *updates;
    _Atomic bool broken;
    char reason[128];
};

struct segment *capture_segment(struct capture *capture);

/* ---- model.c ---- */

/* With one empty segment. */
aclError model_new(struct device *device, struct model **out);
/* Takes the handle back and lets go of it. */
void model_free(struct model *model);
void model_release(struct model *model);
/* Queues all of it on the stream. */
aclError model_run(struct model *model, struct stream *stream);
/* What is captured from now on goes into another segment. */
aclError model_cut(struct model *model);
/* The last segment as a group. */
aclError model_group(struct model *model, struct task_group **out);
/* A record that lives as long as the model; NULL when out of memory. */
struct host_call *model_host_call(struct model *model);
aclError model_compile(struct model *model);
/* The group's segment becomes the first of `from`. */
aclError model_replace(struct task_group *group, struct model *from);

/* ---- condition.c ---- */

void condition_free_all(struct model *model);
/* Before the first segment of a run: conditions have their defaults. */
aclError condition_reset(struct model *model, struct stream *stream);
/* Queues a segment that runs if its word is not 0 when the stream gets there. */
aclError condition_run(struct model *model, const struct segment *segment, struct stream *stream);
/* Waits for branches that are being decided. */
void condition_stop(void);
void condition_forget(void);

#endif
