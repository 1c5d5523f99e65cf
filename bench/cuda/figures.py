"""PyTorch's figures for the works of figures.c: one line per figure, with work, subject, median and unit.

figures.py [seed] [moe] [operators]"""
import statistics
import sys
import time

import torch

ROUNDS = 11


def show(work, subject, value, unit="us"):
    print(f"{work:<24} {subject:<44} {value:10.3f} {unit}", flush=True)


def measure(work, subject, times, body):
    body()
    torch.cuda.synchronize()
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(times):
            body()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - began) * 1e6 / times)
    show(work, subject, statistics.median(rounds))


def graph_of(body):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph


def seed_model():
    a, b, c, d = (torch.randn(1000, 1000, device="cuda", dtype=torch.float16) for _ in range(4))
    s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()

    def one():
        x = a + b
        y = c @ d
        z = c @ d
        return x, y, z, c + d

    def three():
        main = torch.cuda.current_stream()
        x = a + b
        s1.wait_stream(main)
        with torch.cuda.stream(s1):
            y = c @ d
        z = c @ d
        s2.wait_stream(s1)
        with torch.cuda.stream(s2):
            w = c + d
        main.wait_stream(s1)
        main.wait_stream(s2)
        return x, y, z, w

    for name, body in (("1 stream", one), ("3 streams", three)):
        measure("seed model", f"PyTorch eager, {name}", 200, body)
        graph = graph_of(body)
        measure("seed model", f"PyTorch CUDAGraph, {name}", 200, graph.replay)


def moe_layer():
    tokens, hidden, experts, width, chosen = 128, 7168, 32, 2048, 8
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02
    x, router = make(tokens, hidden), make(experts, hidden)
    up, down = make(experts, 2 * width, hidden), make(experts, width, hidden)
    shared_up, shared_down = make(2 * width, hidden), make(hidden, width)
    side = torch.cuda.Stream()

    def swiglu(h):
        gate, value = h.chunk(2, -1)
        return torch.nn.functional.silu(gate) * value

    def gate():
        p, at = torch.topk(torch.softmax(x @ router.T, -1), chosen)
        dense = torch.zeros(tokens, experts, device="cuda", dtype=torch.bfloat16)
        return dense.scatter(1, at, p / p.sum(-1, keepdim=True))

    def by_expert(gates):
        y = torch.bmm(swiglu(torch.matmul(x, up.transpose(1, 2))), down)
        return (y * gates().T.unsqueeze(-1)).sum(0)

    def merged(gates):
        h = swiglu((x @ up.view(-1, hidden).T).view(tokens, experts, 2 * width))
        return (h * gates().unsqueeze(-1)).view(tokens, -1) @ down.view(-1, hidden)

    def layer(routed, beside):
        main = torch.cuda.current_stream()
        ready = torch.cuda.Event()
        gates = gate
        if beside:
            side.wait_stream(main)
        with torch.cuda.stream(side if beside else main):
            if beside == "gates":
                dense = gate()
                ready.record()

                def gates():
                    main.wait_event(ready)
                    return dense

            shared = swiglu(x @ shared_up.T) @ shared_down.T
        y = routed(gates)
        if beside:
            main.wait_stream(side)
        return y + shared

    ways = ((None, "1 stream"), ("shared", "2 streams"), ("gates", "2 streams, gates beside"))
    for form, routed in (("expert by expert", by_expert), ("merged experts", merged)):
        for beside, text in ways:
            body = lambda: layer(routed, beside)
            name = f"{form}, {text}"
            measure("MoE layer", f"PyTorch eager, {name}", 20, body)
            graph = graph_of(body)
            measure("MoE layer", f"PyTorch CUDAGraph, {name}", 20, graph.replay)


def operators():
    make = lambda *shape, dtype=torch.float16: torch.randn(*shape, device="cuda", dtype=dtype)
    fn = torch.nn.functional

    def show_op(subject, times, body):
        measure("operators", f"PyTorch {subject}", times, body)

    for width in (64, 128):
        q, k, v = (make(4, 4096 // width, 2048, width) for _ in range(3))
        for causal in (False, True):
            show_op(f"attention, 4x{4096 // width}x2048x{width}" + ", causal" * causal, 10,
                    lambda: fn.scaled_dot_product_attention(q, k, v, is_causal=causal))
    q, k, v = make(16, 32, 1, 128), make(16, 32, 4096, 128), make(16, 32, 4096, 128)
    show_op("attention, 16x32x1x128, 4096 keys", 10,
            lambda: fn.scaled_dot_product_attention(q, k, v))
    for dtype, name in ((torch.float16, ""), (torch.float32, ", f32")):
        x, w = make(32, 64, 56, 56, dtype=dtype), make(64, 64, 3, 3, dtype=dtype)
        torch.backends.cudnn.allow_tf32 = False
        show_op(f"conv2d, 32x64x56x56, 64 of 3x3{name}", 20, lambda: fn.conv2d(x, w, padding=1))
    x, one = make(4096, 4096), make(4096)
    show_op("softmax, 4096x4096", 50, lambda: torch.softmax(x, 1))
    show_op("layer_norm, 4096x4096", 50, lambda: fn.layer_norm(x, (4096,), one, one))
    show_op("rms_norm, 4096x4096", 50, lambda: fn.rms_norm(x, (4096,), one))
    show_op("sum of rows, 4096x4096", 50, lambda: x.sum(1))
    show_op("sum of columns, 4096x4096", 50, lambda: x.sum(0))
    show_op("max of rows, 4096x4096", 50, lambda: x.amax(1))
    x, y = make(4, 1 << 20, dtype=torch.float32), make(64, 32000, dtype=torch.float32)
    show_op("argsort, 4x1048576, f32", 5, lambda: torch.argsort(x, dim=1, stable=True))
    show_op("topk of 50, 64x32000, f32", 5, lambda: torch.topk(y, 50, 1))


if __name__ == "__main__":
    works = {"seed": seed_model, "moe": moe_layer, "operators": operators}
    for name in sys.argv[1:] or works:
        works[name]()
