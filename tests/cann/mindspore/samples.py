"""The other samples of MindSpore's stream management document as they stand there: cells and functions that make a stream or
keep one, and memory whose owner goes while another stream reads it. Its convolution is an operator by name, as those of nn.Dense's
bias, which is trained as well; others of these are refused with their names."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, context, nn, ops

ms.set_device("Ascend", 0)
context.set_context(mode=context.PYNATIVE_MODE)


class Makes(nn.Cell):
    def construct(self, x):
        s1 = ms.hal.Stream()
        s1.wait_stream(ms.hal.current_stream())
        with ms.hal.StreamCtx(s1):
            y = ops.matmul(x, x)
        ms.hal.current_stream().wait_stream(s1)
        return y + 1


class Keeps(nn.Cell):
    def __init__(self):
        super().__init__()
        self.s1 = ms.hal.Stream()

    def construct(self, x):
        self.s1.wait_stream(ms.hal.current_stream())
        with ms.hal.StreamCtx(self.s1):
            y = ops.matmul(x, x)
        ms.hal.current_stream().wait_stream(self.s1)
        return y + 1


def func(A, s1):
    s1.wait_stream(ms.hal.current_stream())
    with ms.hal.StreamCtx(s1):
        B = ops.matmul(A, A)
    ms.hal.current_stream().wait_stream(s1)
    return B + 1


s1 = ms.hal.Stream()
keeps = Keeps()
for _ in range(3):
    a = np.random.randn(20, 20).astype(np.float32)
    for run in (Makes(), keeps, lambda x: func(x, s1)):
        np.testing.assert_allclose(run(Tensor(a)).asnumpy(), a @ a + 1, rtol=1e-3, atol=1e-4)

before = ms.hal.memory_allocated()
for _ in range(3):
    input_s0 = Tensor(np.random.randn(10, 32, 32, 32), ms.float32)
    weight_s0 = Tensor(np.random.randn(32, 32, 3, 3), ms.float32)
    mess_input = Tensor(np.random.randn(10, 32, 32, 32), ms.float32)
    add_s0 = input_s0 + 1
    s1.wait_stream(ms.hal.default_stream())
    with ms.hal.StreamCtx(s1):
        conv_res = ops.conv2d(add_s0, weight_s0)
        add_s1 = add_s0 + 1
        ev = s1.record_event()
    del add_s0
    mess_output = mess_input + 1
    ev.wait()
    add_1_s0 = add_s1 + 1
    given = input_s0.asnumpy()
    np.testing.assert_allclose(add_1_s0.asnumpy(), given + 3, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mess_output.asnumpy(), mess_input.asnumpy() + 1, rtol=1e-5, atol=1e-5)
    window = np.lib.stride_tricks.sliding_window_view(given + 1, (3, 3), (2, 3))
    want = np.einsum("nchwij,ocij->nohw", window[:1, :, :4, :4], weight_s0.asnumpy())
    np.testing.assert_allclose(conv_res.asnumpy()[:1, :, :4, :4], want, rtol=1e-3, atol=1e-3)
tensor_bytes = 10 * 32 * 32 * 32 * 4
assert ms.hal.memory_allocated() >= before + 4 * tensor_bytes
assert ms.hal.max_memory_allocated() >= ms.hal.memory_allocated()
del input_s0, mess_input, mess_output, add_s1, add_1_s0, conv_res, weight_s0
ms.hal.synchronize()
assert ms.hal.memory_allocated() < before + tensor_bytes, (ms.hal.memory_allocated(), before)

dense = nn.Dense(8, 5, bias_init="normal")
x = np.random.randn(4, 8).astype(np.float32)
y, (dw, db) = ms.value_and_grad(lambda t: (dense(t) ** 2).sum(), None, dense.trainable_params())(Tensor(x))
made = x @ dense.weight.asnumpy().T + dense.bias.asnumpy()
np.testing.assert_allclose(dense(Tensor(x)).asnumpy(), made, rtol=1e-3, atol=1e-4)
np.testing.assert_allclose(db.asnumpy(), 2 * made.sum(0), rtol=1e-3, atol=1e-3)
np.testing.assert_allclose(dw.asnumpy(), 2 * made.T @ x, rtol=1e-3, atol=1e-3)
for settings in ({"stride": 2, "pad_mode": "valid"}, {"pad_mode": "pad", "padding": 1, "group": 2, "has_bias": True}):
    layer = nn.Conv2d(4, 6, 3, **settings)
    image = np.random.randn(2, 4, 9, 9).astype(np.float32)
    pad, step, groups = settings.get("padding", 0), settings.get("stride", 1), settings.get("group", 1)
    padded = np.pad(image, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    window = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::step, ::step]
    parts = [np.einsum("nchwij,ocij->nohw", c, o) for c, o in
             zip(np.split(window, groups, 1), np.split(layer.weight.asnumpy(), groups, 0))]
    want = np.concatenate(parts, 1) + (layer.bias.asnumpy().reshape(1, -1, 1, 1) if layer.has_bias else 0)
    np.testing.assert_allclose(layer(Tensor(image)).asnumpy(), want, rtol=1e-3, atol=1e-3)
try:
    ops.ctc_greedy_decoder(Tensor(np.zeros((4, 2, 3)), ms.float32), Tensor([4, 4], ms.int32))[0].asnumpy()
    raise SystemExit("an operator that is not there ran")
except RuntimeError as error:
    assert "operator 'CTCGreedyDecoder': there is no graph engine (GE) under weir" in str(error), error
print("fine")
