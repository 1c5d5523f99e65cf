/* Estimates that no better machine worsens.
 *
 * What is ready first gets the cores, so that a machine that is better in one figure may start
 * operators in a worse order and lose. A prediction by replay alone therefore does not fall with
 * every improvement. For a profile that inherits a built-in one, replays of the built-in one say
 *   how well the streams overlap, if each operator has the whole bandwidths: where the time lies
 *       between that of the busiest stream, or kind of core, and that of all streams one after the
 *       other;
 *   how much longer it takes because operators share each bandwidth.
 * The time of a machine is at the same place between its own streams' times, and longer by as much,
 * in proportion to the time in which its own bandwidth moves all bytes. All of these fall with
 * every improvement. So machines that inherit one profile keep the order of being better, and the
 * built-in one has its replay's time. */
#ifndef WEIR_GRAPH_ESTIMATE_OVERLAP_H
#define WEIR_GRAPH_ESTIMATE_OVERLAP_H

#include "graph/estimate/estimate.h"

enum { WEIR__OVERLAP_STREAMS = 16 };

/* Microseconds of a stage. */
struct weir__stage_time {
    double us;                             /* of the replay */
    double apart_us;                       /* the same, if operators do not share bandwidths, */
    double flow_apart_us[WEIR__FLOWS];     /* and if they do not share this one */
    double flow_us[WEIR__FLOWS];           /* in which a bandwidth moves all bytes */
    double pool_us[WEIR__POOLS];           /* in which all cores of a kind do all their work */
    double all;                            /* of all streams, one after the other */
    double streams[WEIR__OVERLAP_STREAMS]; /* of each by itself; those beyond are not here */
    uint32_t nstreams;
};

/* With `replays` also the times of replays in which operators do not share bandwidths. */
weir_status weir__stage_time_read(const struct weir__prediction *p, const struct weir__model *model,
                                  bool replays, struct weir__stage_time *out);
/* The times after `times` more steps like that from one to the other. */
void weir__stage_time_extend(const struct weir__stage_time *one,
                             const struct weir__stage_time *other, double times,
                             struct weir__stage_time *out);

/* Returns the time of a stage on a machine, if `known` is that of the same stage on the machine
 * whose replay says how well streams overlap. */
double weir__overlap(const struct weir__stage_time *time, const struct weir__stage_time *known);

/* Opens the machine that the profile of `dev` inherits. *out: NULL if it inherits none. */
weir_status weir__overlap_open(const weir_device *dev, weir_device **out);
void weir__overlap_close(weir_device *ref);
/* Gives attention the cores that it has on the machine of this profile in the same deployment. */
void weir__overlap_cores(struct weir__deploy *d, const struct weir__profile *p);

#endif
