/* oneTBB: flow graphs and task groups. */
#include "../dag_gen.h"
#include "gemm.h"

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <memory>

namespace flow = oneapi::tbb::flow;
using flow::continue_msg;
using Node = flow::continue_node<continue_msg>;

namespace
{

constexpr int chain_length = 100000;
constexpr int prebuilt_length = 10000;
constexpr int hops = 20000;
constexpr int forks = 2000;
constexpr int fork_width = 8;
constexpr int waits = 2000;

void limit_threads(int threads)
{
    static std::unique_ptr<oneapi::tbb::global_control> control;

    control = std::make_unique<oneapi::tbb::global_control>(
        oneapi::tbb::global_control::max_allowed_parallelism, threads);
}

/* Runs a callable as a sample. */
template <typename Once> void sample(const bench *b, const char *subject, Once once)
{
    bench_sample(
        b, subject, "ns", 3, [](void *ctx) { return (*static_cast<Once *>(ctx))(); }, &once);
}

template <typename Work> double per_item(int items, Work work)
{
    double start = bench_now_ns();

    work();
    return (bench_now_ns() - start) / items;
}

void chain(bench *b)
{
    limit_threads(2);
    flow::graph graph;
    flow::function_node<int, int, flow::queueing> queue(graph, flow::serial,
                                                        [](int x) { return x; });

    sample(b, "oneTBB", [&] {
        return per_item(chain_length, [&] {
            for (int i = 0; i < chain_length; i++)
                queue.try_put(i);
            graph.wait_for_all();
        });
    });
}

/* A line of nodes, each starting the next. */
void measure_line(const bench *b, const char *subject, int length)
{
    flow::graph graph;
    std::deque<Node> nodes;

    for (int i = 0; i < length; i++) {
        nodes.emplace_back(graph, [](const continue_msg &) {});
        if (i)
            flow::make_edge(nodes[i - 1], nodes[i]);
    }
    sample(b, subject, [&] {
        return per_item(length, [&] {
            nodes.front().try_put(continue_msg());
            graph.wait_for_all();
        });
    });
}

void chain_prebuilt(bench *b)
{
    limit_threads(2);
    measure_line(b, "oneTBB: prebuilt", prebuilt_length);
}

/* Two queues have no meaning inside a prebuilt graph: a hop is an edge. */
void pingpong(bench *b)
{
    limit_threads(2);
    measure_line(b, "oneTBB: prebuilt", prebuilt_length);

    flow::graph graph;
    using Queue = flow::function_node<int, int, flow::queueing>;
    Queue *pong_of_ping = nullptr;
    Queue ping(graph, flow::serial, [&](int left) {
        if (left > 0)
            pong_of_ping->try_put(left - 1);
        return 0;
    });
    Queue pong(graph, flow::serial, [&](int left) {
        if (left > 0)
            ping.try_put(left - 1);
        return 0;
    });
    pong_of_ping = &pong;
    sample(b, "oneTBB: two serial nodes in a cycle", [&] {
        return per_item(hops, [&] {
            ping.try_put(hops);
            graph.wait_for_all();
        });
    });
}

void dag(bench *b)
{
    constexpr int runs = 20;
    static int deps[DAG_NODES][2];
    limit_threads(b->threads);
    flow::graph graph;
    std::deque<Node> all;

    dag_generate(deps);
    for (int i = 0; i < DAG_NODES; i++) {
        all.emplace_back(graph, [](const continue_msg &) {});
        for (int k = 0; k < 2 && i; k++)
            flow::make_edge(all[static_cast<size_t>(deps[i][k])], all.back());
    }
    sample(b, "oneTBB: prebuilt", [&] {
        return per_item(runs * DAG_NODES, [&] {
            for (int i = 0; i < runs; i++) {
                all[0].try_put(continue_msg());
                graph.wait_for_all();
            }
        });
    });
}

/* 64 lines of nodes, made round robin and all started at once; the work's name says how long a node takes. */
void chains(bench *b)
{
    int us = 0, threads = 1;
    std::sscanf(b->work, "chains_64_%dus_t%d", &us, &threads);
    limit_threads(threads);
    flow::graph graph;
    flow::broadcast_node<continue_msg> start(graph);
    std::deque<Node> all;
    double ns = us * 1000.0;

    for (int i = 0; i < BENCH_CHAIN_TASKS; i++)
        for (int k = 0; k < BENCH_CHAINS; k++) {
            if (us)
                all.emplace_back(graph, [ns](const continue_msg &) { bench_spin_ns(ns); });
            else
                all.emplace_back(graph, [](const continue_msg &) {});
            if (i)
                flow::make_edge(all[all.size() - 1 - BENCH_CHAINS], all.back());
            else
                flow::make_edge(start, all.back());
        }
    sample(b, "oneTBB: prebuilt", [&] {
        return per_item(BENCH_CHAINS * BENCH_CHAIN_TASKS, [&] {
            start.try_put(continue_msg());
            graph.wait_for_all();
        });
    });
}

void fork_join(bench *b)
{
    limit_threads(2);
    flow::graph graph;
    Node fork(graph, [](const continue_msg &) {});
    Node join(graph, [](const continue_msg &) {});
    std::deque<Node> branches;

    for (int i = 0; i < fork_width; i++) {
        branches.emplace_back(graph, [](const continue_msg &) {});
        flow::make_edge(fork, branches.back());
        flow::make_edge(branches.back(), join);
    }
    sample(b, "oneTBB: prebuilt", [&] {
        return per_item(forks, [&] {
            for (int i = 0; i < forks; i++) {
                fork.try_put(continue_msg());
                graph.wait_for_all();
            }
        });
    });

    oneapi::tbb::task_group group;
    sample(b, "oneTBB: task_group", [&] {
        return per_item(forks, [&] {
            for (int i = 0; i < forks; i++) {
                for (int j = 0; j < fork_width; j++)
                    group.run([] {});
                group.wait();
            }
        });
    });
}

void submit_wait(bench *b)
{
    limit_threads(2);
    flow::graph graph;
    flow::function_node<int, int, flow::queueing> queue(graph, flow::serial,
                                                        [](int x) { return x; });

    sample(b, "oneTBB", [&] {
        return per_item(waits, [&] {
            for (int i = 0; i < waits; i++) {
                queue.try_put(i);
                graph.wait_for_all();
            }
        });
    });
}

#ifdef PEER_OPENBLAS
void overlap(bench *b)
{
    limit_threads(2);
    flow::graph graph;
    gemm work[2] = {gemm_make(), gemm_make()};
    using Queue = flow::function_node<int, int, flow::queueing>;
    auto run = [&](int which) {
        gemm_run(&work[which]);
        return 0;
    };
    Queue first(graph, flow::serial, run), second(graph, flow::serial, run);
    auto chains = [&](int queues) {
        double start = bench_now_ns();

        for (int i = 0; i < GEMM_CHAIN; i++) {
            first.try_put(0);
            (queues == 1 ? first : second).try_put(1);
        }
        graph.wait_for_all();
        return bench_now_ns() - start;
    };
    gemm_overlap(
        b, "oneTBB",
        [](void *ctx, int queues) { return (*static_cast<decltype(chains) *>(ctx))(queues); },
        &chains);
}
#endif

void idle(bench *b)
{
    limit_threads(2);
    flow::graph graph;
    flow::function_node<int, int, flow::queueing> queue(graph, flow::serial,
                                                        [](int x) { return x; });

    for (int i = 0; i < waits; i++)
        queue.try_put(i);
    graph.wait_for_all();
    bench_idle_share(b, "oneTBB");
}

} // namespace

int main(int argc, char **argv)
{
    static const bench_case cases[] = {
        {"dag_1000_t1", 1, dag},
        {"dag_1000_t2", 2, dag},
        {"chain", 2, chain},
        {"chain_prebuilt", 2, chain_prebuilt},
        {"pingpong", 2, pingpong},
        {"fork_join_8", 2, fork_join},
        {"submit_wait", 2, submit_wait},
        BENCH_ON_CORES("chains_64_0us", chains),
        BENCH_ON_CORES("chains_64_1us", chains),
        BENCH_ON_CORES("chains_64_5us", chains),
        BENCH_ON_CORES("chains_64_20us", chains),
#ifdef PEER_OPENBLAS
        {"overlap_matmul", 2, overlap},
#endif
        {"idle_cpu", 1, idle},
    };

    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
