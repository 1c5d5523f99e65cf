"""Graphs on a GPU of which some operators are PyTorch's.

``stitch`` makes ``steps`` of a traced graph, ``program`` a function of the steps, and ``capture``
one launch of all of them.
"""
