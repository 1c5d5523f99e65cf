/* Profiles: the figures of a modelled device, as data.
 *
 * A profile is a text of lines `key value # source`. Every figure must have a source; in built-in
 * profiles it begins with `published`, `measured`, `fitted` or `guessed`. A curve's value is
 * `x:y,x:y,...`: operators of size x reach the share y of the rate. A line that starts with # is a
 * comment. `inherits NAME` first copies the figures of another profile. The table below lists all
 * keys, units and ranges.
 */
#ifndef WEIR_SIM_PROFILE_H
#define WEIR_SIM_PROFILE_H

#include "base/base.h"

/* key, least, most, what it is */
#define WEIR__PROFILE_FIELDS(X)                                                          \
    X(cube_cores, 1, 1024, "matrix cores")                                               \
    X(vector_cores, 1, 1024, "vector cores")                                             \
    X(shared_cores, 0, 1, "1: matrix and vector operators run on the same cores")        \
    X(host_cores, 1, 1024, "AI CPUs, for host operators")                                \
    X(sdma_channels, 1, 1024, "copies that run at once")                                 \
    X(clock_mhz, 1, 1e5, "of the cores")                                                 \
    X(cube_flop_per_cycle, 1, 1e7, "of one cube core, in half precision")                \
    X(cube_f32_ratio, 0.001, 1000, "rate of matrix operators in f32, of that in f16")    \
    X(cube_bf16_ratio, 0.001, 1000, "rate of those in bf16, of that in f16")             \
    X(cube_hf32_ratio, 0.001, 1000, "of those in f32 with fewer bits (hf32, tf32)")      \
    X(cube_f64_ratio, 0.0001, 1000, "of those in f64")                                   \
    X(cube_i32_ratio, 0.0001, 1000, "of those in i32 and i64")                           \
    X(cube_i8_ratio, 0.001, 1000, "of those in i8")                                      \
    X(cube_f8_ratio, 0.001, 1000, "of those in f8")                                      \
    X(vector_flop_per_cycle, 1, 1e7, "of one vector core, in half precision")            \
    X(vector_f32_ratio, 0.001, 1000, "rate of vector operators in f32, of that in f16")  \
    X(vector_f64_ratio, 0.0001, 1000, "of those in f64 and i64")                         \
    X(cube_efficiency, 0.01, 1, "share of the peak that long products reach")            \
    X(cube_fill_k, 0, 1e6, "added to k of a product: what filling and draining cost")    \
    X(mix_efficiency, 0.01, 1, "share of the matrix peak that fused attention reaches")  \
    X(vector_efficiency, 0.01, 1, "share of the peak that vector operators reach")       \
    X(cube_head_us, 0, 1e6, "of a matrix operator before its first byte moves")          \
    X(vector_head_us, 0, 1e6, "of a vector operator before its first byte moves")        \
    X(hbm_gib, 0.001, 1e6, "device memory")                                              \
    X(hbm_gb_s, 0.001, 1e6, "its bandwidth")                                             \
    X(hbm_efficiency, 0.01, 1, "share of the bandwidth that operators reach")            \
    X(core_gb_s, 0.001, 1e6, "what one core draws at most")                              \
    X(l2_mib, 0.001, 1e6, "second level cache")                                          \
    X(l2_gb_s, 0.001, 1e6, "its bandwidth")                                              \
    X(sdma_gb_s, 0.001, 1e6, "bandwidth of one copy")                                    \
    X(launch_cube_us, 0, 1e6, "before a matrix operator, issued one by one")             \
    X(launch_vector_us, 0, 1e6, "before a vector operator, issued one by one")           \
    X(launch_comm_us, 0, 1e6, "before a collective, issued one by one")                  \
    X(launch_host_us, 0, 1e6, "before a host operator")                                  \
    X(graph_launch_us, 0, 1e6, "before an operator of a graph")                          \
    X(graph_dispatch_us, 0, 1e7, "of the host, before a whole graph")                    \
    X(graph_stream_us, 0, 1e6, "the same, more for each stream beyond its first")        \
    X(event_record_us, 0, 1e6, "on the stream that records")                             \
    X(event_wait_us, 0, 1e6, "on the stream that waits, once the event is there")        \
    X(stream_limit, 1, 1e6, "streams of a device")                                       \
    X(event_limit, 1, 1e9, "events of a device")                                         \
    X(queue_depth, 1, 1e6, "commands queued on a stream before the host waits")          \
    X(pair_dies, 1, 1e6, "dies of one package")                                          \
    X(pair_gb_s, 0.001, 1e6, "between them, one way")                                    \
    X(pair_us, 0, 1e6, "latency between them")                                           \
    X(node_dies, 1, 1e6, "dies of one server")                                           \
    X(node_gb_s, 0.001, 1e6, "of one die into its server, one way")                      \
    X(node_us, 0, 1e6, "latency within a server")                                        \
    X(node_mesh, 0, 1, "1: a link from each die to each other one; 0: a switch")         \
    X(super_dies, 1, 1e6, "dies of one super node; those of a node where there is none") \
    X(super_gb_s, 0.001, 1e6, "of one die into its super node, one way")                 \
    X(super_us, 0, 1e6, "latency within a super node")                                   \
    X(net_gb_s, 0.001, 1e6, "of one die into the network")                               \
    X(net_us, 0, 1e6, "latency of the network")                                          \
    X(exchange_us, 0, 1e6, "of a dispatch or combine before its transfers")              \
    X(exchange_flight, 1, 1e6, "messages to peers that an all-to-all has under way")     \
    X(dispatch_gb_s, 0.001, 1e6, "routing and packing for a dispatch, all vector cores") \
    X(combine_gb_s, 0.001, 1e6, "adding up of what a combine brings, all vector cores")  \
    X(exchange_share, 0, 1, "of the cores: on so few an exchange takes about twice")     \
    X(exchange_cores, 0, 1024, "cores for large exchanges; 0: copy engines do them")     \
    X(push_efficiency, 0.01, 1, "share of a link that dispatch and combine reach")       \
    X(pull_efficiency, 0.01, 1, "share of a link that other collectives reach")          \
    X(error, 0, 1, "of a prediction: what 9 of 10 published figures are within")

/* Curves. Without a curve, operators of every size reach the full rate. Each curve exists twice:
 * for an operator that runs alone, including its launch, and, with the suffix `_beside`, for one of
 * many operators on several streams, which hide each other's launches and tails. Flops are counted
 * as by weir__model_flops. */
#define WEIR__PROFILE_CURVES(X)                                                           \
    X(hbm_curve, "of hbm_gb_s, over the bytes of elementwise operators")                  \
    X(row_curve, "of hbm_gb_s, over the bytes of operators that reduce rows")             \
    X(weight_curve, "of hbm_gb_s, over the bytes of matrix operators")                    \
    X(cube_curve, "of the rate of matrix operators, over their flops")                    \
    X(depth_curve, "k a microsecond that a product of more than 128 rows passes, over k") \
    X(mix_curve, "of the rate of fused attention, over its flops")                        \
    X(vector_curve, "of the rate of vector operators, over their flops")

enum { WEIR__CURVE_POINTS = 16 };
struct weir__curve {
    int n;                                               /* 0: none */
    double x[WEIR__CURVE_POINTS], y[WEIR__CURVE_POINTS]; /* x rises; so does x / y, so that more
                                                          * work never takes less time */
};
/* Interpolates along log x, constant after the last point. Below the first point y falls in
 * proportion to x, and between points it falls no faster than that. 1 without a curve. */
double weir__curve_at(const struct weir__curve *c, double x);

struct weir__profile {
    char name[32];  /* "910_9391" */
    char about[64]; /* for people */
    /* The built-in profile that a file's profile inherits, and figures of it; name "" without one
     */
    struct {
        char name[32];
        double vector_cores, l2_mib, exchange_us, sdma_gb_s;
    } base;
#define WEIR__PROFILE_MEMBER(key, least, most, what) double key;
    WEIR__PROFILE_FIELDS(WEIR__PROFILE_MEMBER)
#undef WEIR__PROFILE_MEMBER
#define WEIR__PROFILE_MEMBER(key, what) struct weir__curve key, key##_beside;
    WEIR__PROFILE_CURVES(WEIR__PROFILE_MEMBER)
#undef WEIR__PROFILE_MEMBER
};

/* Loads the built-in profile of that name ("a3", "910b4"), or, if `name` contains '/' or '.', the
 * file at that path.
 * returns  WEIR_ESPEC listing the built-in profiles; WEIR_EPARSE with line and key; WEIR_EIO. */
weir_status weir__profile_load(const char *name, struct weir__profile *out);
/* The same from a text; `where` names it in messages. */
weir_status weir__profile_parse(const char *text, const char *where, struct weir__profile *out);

/* Returns the name of the i-th built-in profile; NULL past the last. */
const char *weir__profile_at(size_t i);
/* Returns its text. */
const char *weir__profile_text(size_t i);

#endif
