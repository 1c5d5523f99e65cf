"""``mindspore.nn``: cells."""

import weir as _weir

from . import ops as _ops


class Cell:
    """A piece of a network: subclasses define ``construct``."""

    def __init__(self, auto_prefix=True, flags=None):
        self.training = False

    def construct(self, *args, **kwargs):
        """Computes the cell's result; subclasses define it."""
        raise AttributeError(f"{type(self).__name__} does not define 'construct'")

    def __call__(self, *args, **kwargs):
        return self.construct(*args, **kwargs)

    def cells(self):
        """The cells among the attributes."""
        return [value for value in vars(self).values() if isinstance(value, Cell)]

    def get_parameters(self):
        """The tensors among the attributes, here and in the cells."""
        found = [value for value in vars(self).values() if isinstance(value, _weir.Tensor)]
        for cell in self.cells():
            found += cell.get_parameters()
        return found

    def set_train(self, mode=True):
        self.training = mode
        for cell in self.cells():
            cell.set_train(mode)
        return self


def _initial(init, shape, dtype, fan_in):
    """A parameter: ``init`` is a tensor, 'zeros', 'ones', 'normal', or None for numbers in
    proportion to 1 / sqrt(fan_in), of NumPy's generator."""
    dtype = dtype or _weir.float32
    if isinstance(init, _weir.Tensor):
        if init.shape != tuple(shape):
            raise ValueError(f"a parameter of shape {tuple(shape)} cannot start as {init.shape}")
        return init.cast(dtype)
    if init in ("zeros", "ones"):
        return _weir.full(shape, float(init == "ones"), dtype)
    import numpy as _np

    if init == "normal":
        return _weir.tensor(_np.random.normal(0, 0.01, shape), dtype)
    if init is not None:
        raise ValueError(
            f"a parameter starts as a Tensor, 'zeros', 'ones' or 'normal', not {init!r}"
        )
    scale = fan_in**-0.5
    return _weir.tensor(_np.random.uniform(-scale, scale, shape), dtype)


class Dense(Cell):
    """x times a weight, plus a bias."""

    def __init__(self, in_channels, out_channels, weight_init=None, bias_init="zeros",
                 has_bias=True, activation=None, dtype=None):  # fmt: skip
        super().__init__()
        shape = (out_channels, in_channels)
        self.weight = _initial(weight_init, shape, dtype, in_channels)
        self.bias = _initial(bias_init, shape[:1], dtype, in_channels) if has_bias else None
        self.activation = _ACTIVATIONS[activation]() if isinstance(activation, str) else activation

    def construct(self, x):
        x = _ops.dense(x, self.weight, self.bias)
        return x if self.activation is None else self.activation(x)


class LayerNorm(Cell):
    """Mean 0 and variance 1 along the last dim, then gamma and beta."""

    def __init__(self, normalized_shape, begin_norm_axis=-1, begin_params_axis=-1,
                 gamma_init="ones", beta_init="zeros", epsilon=1e-7, dtype=None):  # fmt: skip
        super().__init__()
        if len(normalized_shape) != 1 or begin_norm_axis != -1 or begin_params_axis != -1:
            raise ValueError("weir's LayerNorm is over the last dim: normalized_shape of one size")
        self.gamma = _initial(gamma_init, normalized_shape, dtype, 1)
        self.beta = _initial(beta_init, normalized_shape, dtype, 1)
        self.epsilon = epsilon

    def construct(self, x):
        return _weir.layer_norm(x, self.gamma, self.beta, self.epsilon)


class Embedding(Cell):
    """Rows of a table by index."""

    def __init__(self, vocab_size, embedding_size, use_one_hot=False, embedding_table="normal",
                 dtype=None, padding_idx=None):  # fmt: skip
        super().__init__()
        shape = (vocab_size, embedding_size)
        self.embedding_table = _initial(embedding_table, shape, dtype, embedding_size)

    def construct(self, ids):
        return _weir.embedding(self.embedding_table, ids)


class Conv2d(Cell):
    """Two-dimensional convolution of [n, c, h, w]."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, pad_mode="same",
                 padding=0, dilation=1, group=1, has_bias=False, weight_init=None,
                 bias_init="zeros", dtype=None):  # fmt: skip
        super().__init__()
        kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        shape = (out_channels, in_channels // group, *kernel)
        fan_in = shape[1] * kernel[0] * kernel[1]
        self.weight = _initial(weight_init, shape, dtype, fan_in)
        self.bias = _initial(bias_init, shape[:1], dtype, fan_in) if has_bias else None
        self.options = (stride, pad_mode, padding, dilation, group)

    def construct(self, x):
        return _ops.conv2d(x, self.weight, self.bias, *self.options)


class Dropout(Cell):
    """Returns its input: weir does not train cells."""

    def __init__(self, keep_prob=None, p=None, dtype=None):
        super().__init__()

    def construct(self, x):
        if self.training:
            raise RuntimeError("weir does not train cells: call set_train(False) before Dropout")
        return x


class CellList(Cell):
    """Cells to index and iterate over."""

    def __init__(self, *cells):
        super().__init__()
        self.cell_list = list(cells[0] if len(cells) == 1 and isinstance(cells[0], list) else cells)

    def cells(self):
        return self.cell_list

    def append(self, cell):
        self.cell_list.append(cell)
        return self

    def __iter__(self):
        return iter(self.cell_list)

    def __len__(self):
        return len(self.cell_list)

    def __getitem__(self, index):
        return self.cell_list[index]


class SequentialCell(CellList):
    """Cells one after the other."""

    def construct(self, x):
        for cell in self.cell_list:
            x = cell(x)
        return x


class ReLU(Cell):
    """max(x, 0)."""

    def construct(self, x):
        return _weir.relu(x)


class GELU(Cell):
    """x * Phi(x)."""

    def __init__(self, approximate=False):
        super().__init__()
        if approximate:
            raise ValueError("weir's GELU is exact: approximate=False")

    def construct(self, x):
        return _weir.gelu(x)


class SiLU(Cell):
    """x * sigmoid(x)."""

    def construct(self, x):
        return _weir.silu(x)


class Sigmoid(Cell):
    """1 / (1 + e^-x)."""

    def construct(self, x):
        return _weir.sigmoid(x)


class Tanh(Cell):
    """Hyperbolic tangent."""

    def construct(self, x):
        return _weir.tanh(x)


class Identity(Cell):
    """x."""

    def construct(self, x):
        return x


class Flatten(Cell):
    """All dims from start_dim to end_dim as one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.dims = {"start_dim": start_dim, "end_dim": end_dim}

    def construct(self, x):
        return _ops.flatten(x, **self.dims)


class Softmax(Cell):
    """exp over its sum along the axis."""

    def __init__(self, axis=-1):
        super().__init__()
        self.axis = axis

    def construct(self, x):
        return _ops.softmax(x, self.axis)


_ACTIVATIONS = {
    "relu": ReLU, "gelu": GELU, "silu": SiLU, "sigmoid": Sigmoid, "tanh": Tanh, "softmax": Softmax,
}  # fmt: skip
