/* Captures and what they become. */
#ifndef WEIR_CANN_CAPTURE_H
#define WEIR_CANN_CAPTURE_H

#include "runtime.h"

/* A graph between two cuts. */
struct segment {
    uint64_t id;
    weir_graph *graph;
    weir_plan *plan;
};

/* A captured function of the host. */
struct host_call {
    aclrtCallback fn;
    void *user;
    void (*release)(void *user); /* when the graph goes; NULL */
    struct host_call *next;
};

struct model {
    void *handle;
    uint32_t id;
    char name[128];
    struct device *device;
    struct segment *segments;
    int nsegments;
    struct task_group **groups;
    int ngroups;
    struct host_call *host_calls; /* that nodes refer to */
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
void model_free(struct model *model);
/* What is captured from now on goes into another segment. */
aclError model_cut(struct model *model);
/* The last segment as a group. */
aclError model_group(struct model *model, struct task_group **out);
/* A record that lives as long as the model; NULL when out of memory. */
struct host_call *model_host_call(struct model *model);
aclError model_compile(struct model *model);
/* The group's segment becomes the first of `from`. */
aclError model_replace(struct task_group *group, struct model *from);

#endif
