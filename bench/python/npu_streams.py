"""The predicted gain of auto_streams on a modelled NPU, for transformers' models: no NPU is needed.

    npu_streams.py [--device npu:a3] [--size tiny|bench] [--layers N] [--phases prefill,...] [--json FILE]
                   [MODEL ...]

A model of gpu_models.py is traced on the host; its graph is compiled for the device with one stream,
with streams by hand (the shared expert, keys and values, the up projection, each alone and all of them)
and with those that the compiler finds, and run in virtual time where nothing is computed. Figures are
microseconds a step of mode max-autotune, the second of two runs.
"""

import argparse
import json
import re
import time
import warnings

PHASES = {"prefill-4k": (1, 4096, 0)}
_SHARED = [(r"shared_expert", "shared", {})]
_KEYS = [(r"k_proj|kv_a_proj", "keys", {}), (r"v_proj", "values", {})]
_UP = [(r"up_proj", "values", {})]
_LIMITED = [(r"shared_expert.*/MatMul", "shared", {"_op_aicore_num": 8}),
            (r"shared_expert", "shared", {"_op_vectorcore_num": 16}),
            (r"/GroupedMatMul", None, {"_op_aicore_num": 16})]  # fmt: skip
HANDS = {
    "shared expert": _SHARED,
    "shared expert on 8 cores": _LIMITED,
    "keys and values": _KEYS,
    "up beside gate": _UP,
    "all": _SHARED + _KEYS + _UP + [(r"rotary_emb", "values", {})],
}


def _nodes(text):
    return re.split(r"(?m)^(?=node \{)", text)


def by_hand(text, rules):
    """The graph file with labels and core limits on the nodes whose names the rules find."""
    made = []
    for node in _nodes(text):
        name = re.search(r'name: "([^"]+)"', node)
        op = re.search(r'op: "(\w+)"', node)
        if name and op and op[1] not in ("Placeholder", "View", "Const", "NetOutput"):
            for pattern, label, limits in rules:
                if re.search(pattern, name[1]):
                    marks = [f'"_user_stream_label" value {{ s: "{label}" }}'] if label else []
                    marks += [f'"{key}" value {{ i: {n} }}' for key, n in limits.items()]
                    at = node.rindex("}")
                    node = node[:at] + "".join(f"  attr {{ key: {m} }}\n" for m in marks) + node[at:]
                    break
        made.append(node)
    return "".join(made)


def _inputs(text, device):
    import weir

    for node in _nodes(text):
        if 'op: "Placeholder"' in node:
            dtype = re.search(r'key: "dtype" value \{ s: "(\w+)"', node)[1]
            shape = re.search(r'key: "shape" value \{ list \{(.*?)\}', node, re.S)
            sizes = [int(i) for i in re.findall(r"i: (\d+)", shape[1])] if shape else []
            yield weir.empty(sizes, dtype=dtype, device=device)


def took(text, spec, streams=None, mode="max-autotune"):
    """(microseconds of a run, streams, nodes with limits that the compiler chose, seconds to compile)"""
    import weir

    device = weir.Device(f"{spec},compute=off")
    began = time.process_time()
    plan = weir.Graph.loads(text, device=device).compile(mode=mode, streams=streams)
    compiled = time.process_time() - began
    inputs = list(_inputs(text, device))
    for _ in range(2):
        start = device.now()
        plan.run(*inputs)
        device.synchronize()
        us = (device.now() - start) / 1e3
    limits = sum(int(n) for n in re.findall(r"stream auto:\d+: \d+ nodes, (\d+) of them", plan.list()))
    return us, plan.stats()["streams"], limits, compiled


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu:a3")
    parser.add_argument("--size", default="bench", choices=["tiny", "bench"])
    parser.add_argument("--layers", type=int, default=4)
    phases = "prefill,prefill-4k,decode,decode-1k"
    parser.add_argument("--phases", default=phases, type=lambda s: s.split(","))
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    import gpu_models
    import launches

    gpu_models.PHASES.update(PHASES)
    print(f"{'model, phase':24} {'one':>9} {'by hand':>9} {'found':>9}  {'gain':>5}  streams, limits, "
          "seconds to compile; best by hand")  # fmt: skip
    rows = {}
    for name in args.models or gpu_models.MODELS:
        for phase in args.phases:
            (text,) = launches.graphs_of(name, phase, args)
            one = took(text, args.device)[0]
            hands = {way: took(by_hand(text, rules), args.device)[0] for way, rules in HANDS.items()}
            best = min(hands, key=hands.get)
            us, streams, limits, compiled = took(text, args.device, "auto")
            rows[f"{name} {phase}"] = {"one": one, "hand": hands[best], "found": us, "limits": limits}
            print(f"{name + ' ' + phase:24} {one:9.1f} {hands[best]:9.1f} {us:9.1f}  {one / us:5.3f}  "
                  f"{streams}, {limits}, {compiled:.2f}; {best if hands[best] < one else 'none'}",
                  flush=True)  # fmt: skip
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
