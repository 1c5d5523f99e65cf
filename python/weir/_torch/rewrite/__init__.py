"""From a traced graph to a better traced graph, before anything of weir's is built of it.

``patterns`` says what is looked for, and in which order; ``common`` shares what is computed twice;
``updates`` turns writes to arguments into results. Operators stay PyTorch's here (``lower`` turns
them into weir's).
"""
