"""Counts which operators of the compiled models are weir's and which are PyTorch's."""

from collections import Counter


class Coverage:
    """Counts of nodes by operator, over all graphs that a backend has compiled."""

    def __init__(self):
        self.native = Counter()
        self.fallback = Counter()

    def add(self, other):
        self.native.update(other.native)
        self.fallback.update(other.fallback)

    def __str__(self):
        total = self.native.total() + self.fallback.total()
        if not total:
            return "nothing was compiled"
        share = 100 * self.native.total() / total
        lines = [f"{self.native.total()} of {total} operators are weir's ({share:.0f}%)"]
        for name, count in self.fallback.most_common():
            lines.append(f"  {count:5d}  {name} runs as PyTorch's kernel inside the stream")
        return "\n".join(lines)
