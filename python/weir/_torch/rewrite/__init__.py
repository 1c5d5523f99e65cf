"""Rewrites a traced graph before a weir graph is built of it.

``patterns`` lists the rewrites in their order; ``common`` removes duplicate computations;
``updates`` turns writes to arguments into results. All operators stay PyTorch's here; ``lower``
converts them to weir's.
"""
