/* weir's own side of `weir bench`: the same works as the peers in bench/peers,
 * through the public API. */
#ifndef WEIR_BENCH_WORKS_H
#define WEIR_BENCH_WORKS_H

#include "bench/harness.h"

#include <weir/weir.h>

/* streams.c: what the runtime costs when operators do nothing. */
void weir__bench_chain(struct bench *b);
void weir__bench_chain_prebuilt(struct bench *b);
void weir__bench_pingpong(struct bench *b);
void weir__bench_fork_join(struct bench *b);
void weir__bench_submit_wait(struct bench *b);
void weir__bench_idle(struct bench *b);

/* plans.c: the same as plans, sampled beside the others. */
void weir__bench_plan_hops(struct bench *b);
void weir__bench_plan_forks(struct bench *b);
void weir__bench_plan_chain(struct bench *b);
void weir__bench_dag(struct bench *b);

/* chains.c: b->work says how long a task is, and on how many cores. */
void weir__bench_chains(struct bench *b);

/* compile.c: what compiling takes. */
void weir__bench_compile_1k(struct bench *b);
void weir__bench_compile_10k(struct bench *b);
void weir__bench_compile_100k(struct bench *b);

/* auto.c: streams=auto against one stream. */
void weir__bench_auto(struct bench *b);
/* model.c: kernels that the modelled machine replays. */
void weir__bench_model_1m(struct bench *b);
void weir__bench_model_10m(struct bench *b);

/* watch.c: what recording a trace and checking for races cost an operator. */
void weir__bench_trace(struct bench *b);
void weir__bench_race(struct bench *b);

/* pool.c: the memory pool on the allocators' trace. */
void weir__bench_pool_mixed(struct bench *b);
void weir__bench_pool_small(struct bench *b);
void weir__bench_pool_second(struct bench *b);

/* kernels.c: real operators; b->threads is the number of cores. */
void weir__bench_overlap(struct bench *b);
void weir__bench_matmul(struct bench *b);
void weir__bench_conv2d(struct bench *b);
void weir__bench_add(struct bench *b);

/* comm.c: b->work says which collective, and of how many bytes. */
void weir__bench_collective(struct bench *b);

/* Ends the case's process with the library's sentence if `status` is an error:
 * a figure of a failed run is no figure. */
void weir__bench_must(const struct bench *b, weir_status status);

/* A cpu device of that many cores, streams and events; each case has a process
 * of its own, whose end gives them back. */
weir_device *weir__bench_open(const struct bench *b, int cores);
weir_stream *weir__bench_stream(const struct bench *b, weir_device *dev);

#endif
