/* weir's own side of `weir bench`: the same works as the peers in bench/peers,
 * through the public API. */
#ifndef WEIR_BENCH_WORKS_H
#define WEIR_BENCH_WORKS_H

#include "bench/harness.h"

#include <weir/weir.h>

/* streams.c: the runtime's own cost, with empty operators. */
void weir__bench_chain(struct bench *b);
void weir__bench_chain_prebuilt(struct bench *b);
void weir__bench_pingpong(struct bench *b);
void weir__bench_fork_join(struct bench *b);
void weir__bench_submit_wait(struct bench *b);
void weir__bench_idle(struct bench *b);

/* plans.c: the same works, as plans. */
void weir__bench_plan_hops(struct bench *b);
void weir__bench_plan_forks(struct bench *b);
void weir__bench_plan_chain(struct bench *b);
void weir__bench_dag(struct bench *b);

/* chains.c: b->work gives the length of a task and the number of cores. */
void weir__bench_chains(struct bench *b);

/* compile.c: the time of compiling. */
void weir__bench_compile_1k(struct bench *b);
void weir__bench_compile_10k(struct bench *b);
void weir__bench_compile_100k(struct bench *b);

/* auto.c: streams=auto against one stream. */
void weir__bench_auto(struct bench *b);
/* model.c: the speed at which the modelled machine replays kernels. */
void weir__bench_model_1m(struct bench *b);
void weir__bench_model_10m(struct bench *b);

/* watch.c: the cost per operator of recording a trace and of checking for races. */
void weir__bench_trace(struct bench *b);
void weir__bench_race(struct bench *b);

/* pool.c: the memory pool on the allocators' trace. */
void weir__bench_pool_mixed(struct bench *b);
void weir__bench_pool_small(struct bench *b);
void weir__bench_pool_second(struct bench *b);

/* kernels.c: real operators; b->threads is the number of cores. */
void weir__bench_overlap(struct bench *b);
void weir__bench_conv2d(struct bench *b);
void weir__bench_add(struct bench *b);

/* products.c: b->work gives the type, the size and the number of cores. */
void weir__bench_product(struct bench *b);
void weir__bench_attention(struct bench *b);

/* comm.c: b->work gives the collective and its bytes. */
void weir__bench_collective(struct bench *b);

/* Ends the case's process with the library's error message if `status` is an error:
 * a failed run gives no figure. */
void weir__bench_must(const struct bench *b, weir_status status);

/* A cpu device of that many cores, streams and events; each case has a process
 * of its own, and its end frees them. */
weir_device *weir__bench_open(const struct bench *b, int cores);
weir_stream *weir__bench_stream(const struct bench *b, weir_device *dev);

#endif
