"""MindSpore's gradient functions: calls raise, as weir computes no gradients."""


def _refuse(name):
    def call(*args, **kwargs):
        raise NotImplementedError(
            f"weir computes no gradients: {name} is not provided. 'weir cann' runs the real "
            "MindSpore on weir (docs/cann.md)"
        )

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = "Not provided: weir computes no gradients."
    return call


grad = _refuse("mindspore.grad")
value_and_grad = _refuse("mindspore.value_and_grad")
