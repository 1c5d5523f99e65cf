"""Random graphs written as files, then written differently: attributes in another order, other spellings of
the same values, nodes at other places. What is loaded is the same graph, and gives what NumPy gives.

    python tests/python/respelled_files.py [--seconds 60] [--first 0]
"""

import random
import re

import random_graphs
import seeds
import weir

ENDS = ("Placeholder", "Const", "View", "Identity", "NetOutput")  # they run nothing: their place means nothing


class Node:
    def __init__(self, text):
        self.lines = [line.strip() for line in text.strip().splitlines()[1:-1]]
        self.name = re.match(r'name: "(.*)"', self.lines[0])[1]
        self.op = re.match(r'op: "(.*)"', self.lines[1])[1]


def parse(text):
    return [Node("node {" + part) for part in re.split(r"(?m)^node \{", text)[1:]]


def respell(pick, line):
    """The same value in other letters."""
    line = re.sub(r"\bi: (-?\d+)", lambda m: pick.choice([
        m[0], f"i:{m[1]}", f"i : {m[1]};", f"i: {_based(pick, int(m[1]))}", f"i:  # a number\n{m[1]}"]), line)  # fmt: skip
    line = re.sub(r"\bf: (-?\d+)(?= )", lambda m: pick.choice([
        m[0], f"f: {m[1]}.0", f"f: {m[1]}e0", f"f: {m[1]}.", f"f: {m[1]}f", f"f: {m[1]}.0E+00,"]), line)  # fmt: skip
    line = re.sub(r"\bb: (true|false)", lambda m: pick.choice([m[0], f"b: {m[1].title()}"]), line)
    line = re.sub(r'"([^"\\]+)"', lambda m: _string(pick, m[1]), line)
    if "list { i:" in line and pick.random() < 0.3 and "#" not in line and ";" not in line:
        line = re.sub(r"list \{((?: i ?:\S+| i: \S+)+) \}",
                      lambda m: "list { i: [" + ", ".join(re.findall(r"i ?: ?(\S+)", m[1])) + "] }", line)  # fmt: skip
    if pick.random() < 0.2:
        line = re.sub(r"^attr \{ (.*) value \{ (.*) \} \}$", r"attr < \1, value: < \2 > >;", line, flags=re.S)
    if pick.random() < 0.2:
        line = re.sub(r"^attr \{ (key: \S+) (value .*) \}$", r"attr: { \2 \1 }", line, flags=re.S)
    return line


def _based(pick, n):
    sign, n = ("-" if n < 0 else ""), abs(n)
    return pick.choice([f"{sign}0x{n:x}", f"{sign}0X{n:X}", f"{sign}0{n:o}" if n else "0"])


def _string(pick, text):
    if re.fullmatch("[0-9a-f]{8,}", text):
        return f'"{text}"'  # bytes of a constant are one literal without escapes
    at = pick.randrange(len(text) + 1)
    return pick.choice([
        f'"{text}"', f"'{text}'", f'"{text[:at]}" "{text[at:]}"', f"\"{text[:at]}\"\n'{text[at:]}'",
        '"' + text[:-1] + f'\\x{ord(text[-1]):02x}"', '"' + text[:-1] + f'\\{ord(text[-1]):03o}"',
    ])  # fmt: skip


def write(pick, nodes):
    made = []
    for node in nodes:
        rest = node.lines[:]
        inputs = [line for line in rest if line.startswith("input:")]
        others = [line for line in rest if not line.startswith("input:")]
        pick.shuffle(others)
        places = sorted((pick.randrange(len(others) + 1) for _ in inputs), reverse=True)
        for at, line in zip(places, reversed(inputs)):
            others.insert(at, line)
        made.append(pick.choice(("node {", "node: {", "node\n{")) + pick.choice(("\n", " ")))
        made += [respell(pick, line) + pick.choice(("\n", "  ", "\n\n", "\t\r\n", " # x: {\n")) for line in others]
        made.append("}" + pick.choice(("\n", "", ";\n", ",")))
    return "".join(made)


def move(pick, nodes):
    """Nodes that run nothing go anywhere, but inputs keep their order among themselves."""
    steps = [n for n in nodes if n.op not in ENDS]
    inputs = [n for n in nodes if n.op == "Placeholder"]
    others = [n for n in nodes if n.op in ENDS and n.op != "Placeholder"]
    made = steps[:]
    for at, node in zip(sorted((pick.randrange(len(made) + 1) for _ in inputs), reverse=True), reversed(inputs)):
        made.insert(at, node)
    for node in others:
        made.insert(pick.randrange(len(made) + 1), node)
    return made


def try_seed(seed, devices=("cpu", "npu:a3")):
    """(runs compared, sentences about what is wrong)."""
    pick = random.Random(seed)
    program = random_graphs.Graph(seed, pick.choice((None, None, None, "minus")))
    program.hosts and setattr(program, "hosts", False)
    device = weir.Device(pick.choice(devices))
    before = weir.get_device()
    weir.set_device(device)
    wrong, runs = [], 0
    try:
        try:
            graph = program.capture(device)
            text = graph.dump()
        except weir.Error:
            return 0, []
        if "HostCall" in text:
            return 0, []
        nodes = parse(text)
        other = write(pick, nodes)
        loaded = weir.Graph.loads(other, device=device)
        if loaded.dump() != text:
            wrong.append(f"respelled, it is another graph:\n{other}\nis\n{loaded.dump()}\nnot\n{text}")
        moved_text = write(pick, move(pick, nodes))
        moved = weir.Graph.loads(moved_text, device=device)
        again = moved.dump()
        if weir.Graph.loads(again, device=device).dump() != again:
            wrong.append(f"dumped, loaded and dumped it changes:\n{again}")
        sizes = [pick.choice(random_graphs.SIZES) for _ in range(3)] if program.open else random_graphs.SIZES[:1] * 2
        for name, one in (("respelled", loaded), ("moved", moved)):
            try:
                plan = one.compile()
            except weir.Error as error:
                try:
                    graph.compile()
                except weir.Error:
                    continue
                wrong.append(f"{name}: {error}")
                continue
            random_graphs.run_plan(program, plan, device, range(10, 20), sizes, wrong, name)
            runs += len(sizes)
    except weir.Error as error:
        wrong.append(f"{type(error).__name__}: {error}\n{other}")
    finally:
        weir.set_device(before)
    if wrong:
        wrong = [f"seed {seed} on {device.name}", *wrong[:2], str(program)]
    return runs, wrong


if __name__ == "__main__":
    raise SystemExit(seeds.main("graph files in other letters and orders", "files", try_seed))
