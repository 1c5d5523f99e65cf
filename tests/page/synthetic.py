"""Traces in weir's format with many operators, made up but possible."""
import bisect
import json
import random

ENGINES = ["cube", "vector", "mix", "sdma"]
NAMES = ["MatMul", "Softmax", "LayerNorm", "Add", "AllReduce", "Dispatch", "Combine", "Attention",
         "RotaryEmbedding", "SwiGLU"]


def trace(operators, streams=4, ranks=1, seed=1):
    """The document, with all streams about equally long and a sync every 20 operators."""
    rng = random.Random(seed)
    devices = [{"name": "npu:a3", "model": "made up", "cube": 8, "vector": 16, "split": True,
                "real_time": False, "rank": r} for r in range(ranks)]
    table = [{"name": "default" if s == 0 else f"stream {s}", "device": r, "priority": 0}
             for r in range(ranks) for s in range(streams)]
    ops, waits, parts, events = [], [], [], []
    each, ends = operators // len(table), [[] for _ in table]
    for s, stream in enumerate(table):
        at = rng.randrange(1000)
        for i in range(each):
            took = rng.randrange(200, 20000)
            at += rng.choice([10, 10, 50, 400])
            rank = stream["device"]
            wait = None
            if i % 20 == 10 and s % streams and ops:
                # of the stream before, the last operator that is over by now
                last = bisect.bisect_right(ends[s - 1], at + 5000) - 1
                if last >= 0:
                    wait = (s - 1) * each + last
                    at = max(at, ends[s - 1][last] + 20)
            index = len(ops)
            ops.append({"index": index, "stream": s, "start": at, "end": at + took, "wait": wait,
                        "engine": ENGINES[(s + i) % 2 if s % 4 else i % 2], "rank": rank,
                        "name": f"layer{i // 10 % 61}/{NAMES[i % len(NAMES)]}", "seq": i + 1})
            at += took
            ends[s].append(at)
    for op in ops:
        events.append({"ph": "X", "cat": "op", "pid": 2 * op["rank"] + 1, "tid": op["stream"] + 1,
                       "name": op["name"], "ts": op["start"] / 1000,
                       "dur": (op["end"] - op["start"]) / 1000,
                       "args": {"seq": op["seq"], "engine": op["engine"], "blocks": 1, "cores": 1,
                                "bytes": 4096, "queued": op["start"] / 1000 - 0.01,
                                "ready": op["start"] / 1000}})
    for op in ops:
        if op["wait"] is not None:
            source = ops[op["wait"]]
            waits.append({"ph": "X", "cat": "wait", "pid": 2 * op["rank"] + 1,
                          "tid": op["stream"] + 1, "name": "wait for",
                          "ts": source["end"] / 1000 - 0.3, "dur": 0.3,
                          "args": {"op": op["index"], "source_op": op["wait"],
                                   "source_stream": source["stream"]}})
    for op in ops:
        core = op["stream"] % streams + (8 if op["engine"] == "vector" else 0)
        parts.append({"ph": "X", "cat": "part", "pid": 2 * op["rank"] + 2, "tid": core + 1,
                      "name": op["name"], "ts": op["start"] / 1000,
                      "dur": (op["end"] - op["start"]) / 1000,
                      "args": {"part": op["index"], "op": op["index"], "blocks": 1}})
    memory = [{"ph": "C", "pid": 1, "tid": 0, "name": "memory", "ts": i * 10,
               "args": {"allocated": (1 + i % 7) << 20, "reserved": 8 << 20}} for i in range(200)]
    return {"displayTimeUnit": "ns",
            "weir": {"trace": 1, "dropped": 0, "devices": devices, "streams": table},
            "traceEvents": events + waits + parts + memory}


def write(path, *args, **more):
    with open(path, "w") as f:
        json.dump(trace(*args, **more), f)
