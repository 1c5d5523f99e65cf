"""Writes graphs on which `weir calibrate` compares the model with a real device.

    python bench/python/model_graphs.py DIR            60 graphs that no fit has seen
    weir calibrate --device cuda:0 -o here.profile --json DIR/*.pbtxt

Products, attention, norms and layers of experts, one after the other and on 2 to 4 streams, of sizes
that differ from those of the fit. Standard library only.
"""

import os
import sys


class Graph:
    """A graph file, node by node."""

    def __init__(self, dtype="bf16"):
        self.dtype = dtype
        self.text = []
        self.count = 0
        self.stream = None
        self.outputs = []

    def input(self, *shape):
        name = f"in{self.count}"
        self.count += 1
        dims = "".join(f" i: {n}" for n in shape)
        self.text.append(
            f'node {{ name: "{name}" op: "Placeholder" attr {{ key: "dtype" value {{ s: "{self.dtype}" }} }} '
            f'attr {{ key: "shape" value {{ list {{{dims} }} }} }} }}'
        )
        return name

    def op(self, kind, *inputs, **attrs):
        name = f"{kind.lower()}{self.count}"
        self.count += 1
        line = f'node {{ name: "{name}" op: "{kind}"' + "".join(f' input: "{i}"' for i in inputs)
        if self.stream:
            attrs["_user_stream_label"] = self.stream
        for key, value in attrs.items():
            tag = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f" if isinstance(value, float) else "s"
            shown = str(value).lower() if tag == "b" else f'"{value}"' if tag == "s" else value
            line += f' attr {{ key: "{key}" value {{ {tag}: {shown} }} }}'
        self.text.append(line + " }")
        return name

    def write(self, path):
        outs = "".join(f' input: "{o}"' for o in self.outputs)
        with open(path, "w") as f:
            f.write("\n".join(self.text) + f'\nnode {{ name: "out" op: "NetOutput"{outs} }}\n')


def streams_of(g, n, part):
    """`part(i)` on each of n streams; the first is the caller's."""
    for i in range(n):
        g.stream = f"s{i}" if i else None
        g.outputs.append(part(i))
    g.stream = None


def products(n, m, k, w, chain, dtype="bf16"):
    g = Graph(dtype)
    inputs = [(g.input(m, k), g.input(k, w), g.input(w, k)) for _ in range(n)]

    def part(i):
        x, up, down = inputs[i]
        for _ in range(chain):
            x = g.op("MatMul", g.op("MatMul", x, up), down)
        return x

    streams_of(g, n, part)
    return g


def attentions(n, batch, heads, length, keys, causal, chain=2):
    g = Graph()
    inputs = [(g.input(batch, heads, length, 128), g.input(batch, heads, keys, 128), g.input(batch, heads, keys, 128))
              for _ in range(n)]

    def part(i):
        q, k, v = inputs[i]
        for _ in range(chain):
            q = g.op("Attention", q, k, v, scale=0.088, causal=causal)
        return q

    streams_of(g, n, part)
    return g


def norms(n, rows, width, chain, dtype="bf16"):
    g = Graph(dtype)
    inputs = [(g.input(rows, width), g.input(width)) for _ in range(n)]

    def part(i):
        x, w = inputs[i]
        for k in range(chain):
            x = g.op("RmsNorm", x, w, eps=1e-6) if k % 2 == 0 else g.op("Softmax", x, dim=1)
        return x

    streams_of(g, n, part)
    return g


def experts(n, tokens, hidden, dim, count):
    """A norm, a gate, `count` experts spread over the streams, and their sum."""
    g = Graph()
    x, w, gate = g.input(tokens, hidden), g.input(hidden), g.input(hidden, count)
    weights = [(g.input(hidden, 2 * dim), g.input(dim, hidden)) for _ in range(count)]
    y = g.op("RmsNorm", x, w, eps=1e-6)
    g.outputs.append(g.op("Softmax", g.op("MatMul", y, gate), dim=1))
    ends = []
    for i, (up, down) in enumerate(weights):
        g.stream = f"s{i % n}" if i % n else None
        ends.append(g.op("MatMul", g.op("Swiglu", g.op("MatMul", y, up), dim=1), down))
    g.stream = None
    total = x
    for e in ends:
        total = g.op("Add", total, e)
    g.outputs.append(total)
    return g


def layers(n, tokens, hidden, heads, dim):
    """A transformer layer of each stream's own tokens."""
    g = Graph()
    inputs = []
    for _ in range(n):
        inputs.append((g.input(1, heads, tokens, 128), g.input(tokens, hidden), g.input(hidden),
                       g.input(hidden, 2 * dim), g.input(dim, hidden)))

    def part(i):
        q, x, w, up, down = inputs[i]
        g.outputs.append(g.op("Attention", q, q, q, scale=0.088, causal=True))
        y = g.op("RmsNorm", x, w, eps=1e-6)
        y = g.op("MatMul", g.op("Swiglu", g.op("MatMul", y, up), dim=1), down)
        return g.op("Add", x, y)

    streams_of(g, n, part)
    return g


def unseen():
    """Name and graph of each of the 60."""
    for n in (1, 2, 3, 4):
        for m, k, w, chain in ((24, 3072, 6144, 3), (192, 1536, 3072, 3), (640, 2560, 2560, 2), (1536, 1536, 6144, 2)):
            yield f"products-{m}-{k}-{w}-s{n}", products(n, m, k, w, chain)
        yield f"products-f32-s{n}", products(n, 320, 768, 1280, 2, "f32")
    for n in (1, 2, 4):
        for batch, heads, length, keys, causal in ((1, 16, 768, 768, True), (1, 32, 1536, 1536, True),
                                                   (4, 24, 384, 1152, False), (12, 16, 1, 3072, False)):
            yield f"attention-{batch}-{heads}-{length}-{keys}-s{n}", attentions(n, batch, heads, length, keys, causal)
    for n in (1, 2, 3, 4):
        for rows, width in ((96, 3072), (1536, 1536), (6144, 3072)):
            yield f"norms-{rows}-{width}-s{n}", norms(n, rows, width, 6)
    for n in (1, 2, 4):
        for tokens, hidden, dim, count in ((24, 1536, 768, 8), (192, 2048, 768, 8), (768, 3072, 1536, 4)):
            yield f"experts-{tokens}-{hidden}-{dim}-{count}-s{n}", experts(n, tokens, hidden, dim, count)
    for n in (1, 2, 4):
        for tokens, hidden, heads, dim in ((48, 2048, 16, 4096), (384, 2048, 16, 4096)):
            yield f"layers-{tokens}-{hidden}-s{n}", layers(n, tokens, hidden, heads, dim)
    yield "layers-1536-2048-s2", layers(2, 1536, 2048, 16, 4096)


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    os.makedirs(argv[1], exist_ok=True)
    for name, graph in unseen():
        graph.write(os.path.join(argv[1], name + ".pbtxt"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
