"""``mindspore.nn``: cells."""

import weir as _weir

from . import ops as _ops


class Cell:
    """A piece of a network: subclasses define ``construct``."""

    def __init__(self, auto_prefix=True, flags=None):
        self.training = False

    def construct(self, *args, **kwargs):
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


class Dense(Cell):
    """x times a weight, plus a bias."""

    def __init__(self, in_channels, out_channels, has_bias=True, dtype=None):
        super().__init__()
        import numpy as _np

        scale = in_channels**-0.5
        values = _np.random.uniform(-scale, scale, (out_channels, in_channels))
        self.weight = _weir.tensor(values, dtype or _weir.float32)
        self.bias = _weir.zeros((out_channels,), dtype or _weir.float32) if has_bias else None

    def construct(self, x):
        return _ops.dense(x, self.weight, self.bias)


class SequentialCell(Cell):
    """Cells one after the other."""

    def __init__(self, *cells):
        super().__init__()
        self.cell_list = list(cells[0] if len(cells) == 1 and isinstance(cells[0], list) else cells)

    def cells(self):
        return self.cell_list

    def construct(self, x):
        for cell in self.cell_list:
            x = cell(x)
        return x


class ReLU(Cell):
    """max(x, 0)."""

    def construct(self, x):
        return _ops.relu(x)


class GELU(Cell):
    """x * Phi(x)."""

    def construct(self, x):
        return _ops.gelu(x)


class Softmax(Cell):
    """exp over its sum along the axis."""

    def __init__(self, axis=-1):
        super().__init__()
        self.axis = axis

    def construct(self, x):
        return _ops.softmax(x, self.axis)
