"""From a traced graph to a weir graph: ``build`` makes it, node by node.

``open_sizes`` and ``symbols`` are for graphs whose sizes runs decide, ``places`` says where results
lie, ``origins`` which module and line a node comes from. What an operator becomes is in ``lower``.
"""
