"""Builds a weir graph of a traced graph: ``build`` does it node by node.

``open_sizes`` and ``symbols`` are for graphs whose sizes vary between runs, ``places`` determines
the memory layout of results, ``origins`` the module and line of a node. ``lower`` converts
operators.
"""
