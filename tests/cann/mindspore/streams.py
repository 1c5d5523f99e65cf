"""The samples of MindSpore's stream management document on Ascend, and a training step."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, ops

ms.set_device("Ascend", 0)

# Streams
s = ms.hal.Stream()
A = Tensor(np.random.randn(20, 20), ms.float32)
a = A.asnumpy()
B = ops.matmul(A, A)
s.wait_stream(ms.hal.current_stream())
with ms.hal.StreamCtx(s):
    C = ops.sum(B)
s.synchronize()
assert s.query()
np.testing.assert_allclose(C.asnumpy(), (a @ a).sum(), rtol=1e-3)

# Events
ev1, ev2 = ms.hal.Event(), ms.hal.Event()
B = ops.matmul(A, A)
ev1.record()
with ms.hal.StreamCtx(s):
    ev1.wait()
    C = ops.sum(B)
    ev2.record()
ev2.wait()
D = C + 1
np.testing.assert_allclose(D.asnumpy(), (a @ a).sum() + 1, rtol=1e-3)
begin, end = ms.hal.Event(enable_timing=True), ms.hal.Event(enable_timing=True)
begin.record()
ops.matmul(A, A)
end.record()
end.synchronize()
assert begin.elapsed_time(end) > 0

# Memory that another stream still uses keeps its bytes
for _ in range(10):
    given = np.random.randn(10, 32, 32, 32).astype(np.float32)
    mess = Tensor(np.random.randn(10, 32, 32, 32), ms.float32)
    add_s0 = Tensor(given) + 1
    s.wait_stream(ms.hal.default_stream())
    with ms.hal.StreamCtx(s):
        product = ops.matmul(add_s0, add_s0)
        add_s1 = add_s0 + 1
        ev = s.record_event()
    del add_s0
    mess_output = mess + 1
    ev.wait()
    np.testing.assert_allclose((add_s1 + 1).asnumpy(), given + 3, rtol=1e-5, atol=1e-5)

# A training step
net = mint.nn.Linear(20, 4)
target = Tensor(np.ones((20, 4)), ms.float32)


def loss(x, y):
    return mint.mean((net(x) - y) * (net(x) - y))


step = ms.value_and_grad(loss, None, net.trainable_params())
losses = []
for _ in range(5):
    value, gradients = step(A, target)
    losses.append(float(value.asnumpy()))
    for parameter, gradient in zip(net.trainable_params(), gradients):
        parameter.set_data(parameter - 0.05 * gradient)
assert losses[-1] < losses[0], losses
print("fine")
