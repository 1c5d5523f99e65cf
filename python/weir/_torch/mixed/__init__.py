"""Graphs on a GPU in which some operators are PyTorch's.

``stitch`` splits a traced graph into ``steps``, ``program`` generates a function that runs the
steps, and ``capture`` records them as one launch.
"""
