#!/usr/bin/env python3
"""Writes one decode step of a DeepSeek-V3-like model as a graph file of Kernel nodes.

Every kernel carries what its shape costs: blocks, the time of a block on one core of the
device, and the bytes it moves. One file serves all dies: attention is data parallel, the
routed experts are spread over the dies, and dispatch and combine are collectives.

    ./decode.py --dies 64 --placement shared > step.pbtxt
    weir run step.pbtxt --ranks 64 --device npu:a3,compute=off
"""
import argparse
import sys

# The model: DeepSeek-V3 as published.
HIDDEN, Q_RANK, KV_RANK, ROPE, NOPE, V_DIM, HEADS = 7168, 1536, 512, 64, 128, 128, 128
EXPERTS, TOP, EXPERT_DIM, DENSE_LAYERS, DENSE_DIM = 256, 8, 2048, 3, 18432

# The device: one core of an Ascend 910C die, at the rates that kernels reach. Weights are int8,
# for which the matrix cores are twice as fast; attention is in half precision.
CUBE_FLOP_PER_US = 8192 * 1850 * 0.8
INT8_SPEEDUP = 2
VECTOR_FLOP_PER_US = 256 * 1850 * 0.6
CUBE_BLOCKS, VECTOR_BLOCKS, COMM_BLOCKS = 96, 96, 16


class Graph:
    def __init__(self, out):
        self.out = out

    def node(self, name, engine, inputs, stream, flops=0.0, bytes=0, blocks=None, collective=None,
             limit=None):
        rate = VECTOR_FLOP_PER_US if engine == "vector" else CUBE_FLOP_PER_US
        blocks = blocks or (VECTOR_BLOCKS if engine == "vector" else CUBE_BLOCKS)
        attrs = [("engine", "s", f'"{engine}"'), ("blocks", "i", blocks), ("bytes", "i", int(bytes))]
        if collective:
            attrs += [("collective", "s", f'"{collective}"'), ("class", "s", '"mc2"')]
        else:
            attrs += [("us_per_block", "f", f"{flops / rate / blocks:.6f}")]
        if stream:
            attrs += [("_user_stream_label", "s", f'"{stream}"')]
        if limit:
            attrs += [("_op_aicore_num", "i", limit[0]), ("_op_vectorcore_num", "i", limit[1])]
        self.out.write(f'node {{\n  name: "{name}"\n  op: "Kernel"\n')
        for i in inputs:
            self.out.write(f'  input: "^{i}"\n')
        for key, kind, value in attrs:
            self.out.write(f'  attr {{ key: "{key}" value {{ {kind}: {value} }} }}\n')
        self.out.write("}\n")
        return name


def matmul(tokens, k, n):
    """Flops as in half precision, and bytes of int8 weights and half-precision activations."""
    return 2.0 * tokens * k * n / INT8_SPEEDUP, k * n + 2 * tokens * (k + n)


def attention(g, p, x, tokens, kv, stream, limit):
    """Normalisation, MLA and its output projection. Returns the last node."""
    q_dim = HEADS * (NOPE + ROPE)
    weights = [(HIDDEN, Q_RANK), (Q_RANK, q_dim), (HIDDEN, KV_RANK + ROPE), (HEADS * NOPE, KV_RANK)]
    flops = sum(matmul(tokens, k, n)[0] for k, n in weights)
    moved = sum(k * n for k, n in weights) + 2 * tokens * (HIDDEN + q_dim)
    n = g.node(f"{p}/norm", "vector", x, stream, 6.0 * tokens * HIDDEN, 4 * tokens * HIDDEN, limit=limit)
    n = g.node(f"{p}/mla_prolog", "mix", [n], stream, flops, moved, limit=limit)
    flops = 2.0 * tokens * HEADS * kv * (KV_RANK + ROPE + KV_RANK)
    n = g.node(f"{p}/attention", "mix", [n], stream, flops, 2 * tokens * kv * (KV_RANK + ROPE), limit=limit)
    n = g.node(f"{p}/v_up", "cube", [n], stream, *matmul(tokens, HEADS * KV_RANK // HEADS, HEADS * V_DIM), limit=limit)
    return g.node(f"{p}/o_proj", "cube", [n], stream, *matmul(tokens, HEADS * V_DIM, HIDDEN), limit=limit)


def mlp(g, p, x, tokens, dim, experts, stream, limit):
    """Up and gate projection, activation, down projection, over some experts."""
    flops, moved = matmul(tokens, HIDDEN, 2 * dim)
    n = g.node(f"{p}_up", "cube", x, stream, flops, moved + (experts - 1) * HIDDEN * 2 * dim, limit=limit)
    n = g.node(f"{p}_act", "vector", [n], stream, 8.0 * tokens * dim, 6 * tokens * dim, limit=limit)
    flops, moved = matmul(tokens, dim, HIDDEN)
    return g.node(f"{p}_down", "cube", [n], stream, flops, moved + (experts - 1) * dim * HIDDEN, limit=limit)


def moe(g, p, x, tokens, dies, stream, shared_stream, limit):
    """Gating, dispatch, routed and shared experts, combine. Returns the last node."""
    experts = max(1, EXPERTS // dies)
    norm = g.node(f"{p}/moe_norm", "vector", x, stream, 6.0 * tokens * HIDDEN, 4 * tokens * HIDDEN, limit=limit)
    n = g.node(f"{p}/gate", "cube", [norm], stream, *matmul(tokens, HIDDEN, EXPERTS), limit=limit)
    n = g.node(f"{p}/top", "vector", [n], stream, 40.0 * tokens * EXPERTS, 4 * tokens * EXPERTS, limit=limit)
    shared = [] if not shared_stream else [
        mlp(g, f"{p}/shared", [norm], tokens, EXPERT_DIM, 1, shared_stream, limit)]
    n = g.node(f"{p}/dispatch", "vector", [n], stream, bytes=tokens * TOP * HIDDEN, blocks=COMM_BLOCKS,
               collective="dispatch")
    n = mlp(g, f"{p}/routed", [n], tokens * TOP, EXPERT_DIM, experts, stream, limit)
    n = g.node(f"{p}/combine", "vector", [n], stream, bytes=2 * tokens * TOP * HIDDEN, blocks=COMM_BLOCKS,
               collective="combine")
    if not shared_stream:
        shared = [mlp(g, f"{p}/shared", [norm], tokens, EXPERT_DIM, 1, stream, limit)]
    return g.node(f"{p}/sum", "vector", [n] + shared, stream, 3.0 * tokens * HIDDEN, 6 * tokens * HIDDEN, limit=limit)


def layer(g, p, i, x, tokens, a, attention_stream, moe_stream, shared_stream, limits):
    x = [attention(g, p, x, tokens, a.kv, attention_stream, limits[0])]
    if i < DENSE_LAYERS:
        return mlp(g, f"{p}/dense", x, tokens, DENSE_DIM, 1, moe_stream, limits[1])
    return moe(g, p, x, tokens, a.dies, moe_stream, shared_stream, limits[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dies", type=int, default=1, help="ranks that will run the file")
    parser.add_argument("--layers", type=int, default=61)
    parser.add_argument("--batch", type=int, default=48, help="tokens of one die in one step")
    parser.add_argument("--kv", type=int, default=4096, help="tokens of context")
    parser.add_argument("--placement", choices=["single", "shared", "microbatch"], default="single",
                        help="one stream; the shared expert on its own; two microbatches, attention "
                             "and experts on streams of their own")
    a = parser.parse_args()
    g = Graph(sys.stdout)
    if a.placement != "microbatch":
        x = []
        for i in range(a.layers):
            x = [layer(g, f"l{i}", i, x, a.batch, a, None, None,
                       "shared" if a.placement == "shared" else None, [None, None])]
        return
    # While one half of the batch runs its experts, the other half runs its attention.
    halves = [[], []]
    for i in range(a.layers):
        for half in (0, 1):
            halves[half] = [layer(g, f"l{i}.{half}", i, halves[half], a.batch // 2, a, "attention", "moe", None,
                                  [(16, 32), (8, 16)])]


if __name__ == "__main__":
    main()
