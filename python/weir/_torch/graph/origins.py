"""The origin of a traced operator: the module that called it, and the line."""

import bisect
import os
import re

_PARTS = re.compile(r"\['?([^\]']*)'?\]")
_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_NAMED = re.compile(r"'[^']*?_(\d+)'")


def module(node):
    """The module, such as ``model.layers.3.mlp.gate``; None outside of modules."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return None
    path = str(next(reversed(stack.values()))[0])
    path = re.sub(r"^L\['\w+'\]", "", path).replace("._modules", "")
    return _PARTS.sub(r".\1", path).strip(".") or None


def source(node):
    """The line, such as ``modeling_llama.py:123``; None if PyTorch does not say."""
    lines = _LINE.findall(node.meta.get("stack_trace") or "")
    return f"{os.path.basename(lines[-1][0])}:{lines[-1][1]}" if lines else None


def _place(node):
    """The node's module and line; for a node that a rewrite made, those of the original nodes."""
    seen = set()
    while (found := (module(node), source(node))) == (None, None):
        seen.add(node)
        before = [n for n in node.all_input_nodes if n.op not in ("placeholder", "get_attr")]
        if not before or before[-1] in seen:
            break
        node = before[-1]
    return found


class Origins:
    """Sets the origins of a weir graph's nodes, and keeps them for errors."""

    def __init__(self, graph):
        self.graph = graph
        self.firsts, self.lines = [], []  # first node of each line, and the line
        self._last = None

    def enter(self, node):
        here = _place(node)
        if here != self._last:
            self._last = here
            self.graph.describe(*here)
            self.firsts.append(len(self.graph))
            self.lines.append(here[1])

    def leave(self):
        self._last = None
        self.graph.describe()

    def explain(self, error):
        """Adds the lines of the nodes that an error names."""
        for number in dict.fromkeys(_NAMED.findall(str(error))):
            at = bisect.bisect_right(self.firsts, int(number)) - 1
            if at >= 0 and self.lines[at]:
                error.add_note(f"node {number} is from {self.lines[at]}")
