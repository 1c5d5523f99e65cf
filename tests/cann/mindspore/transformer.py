"""A small transformer in PyNative mode: the forward pass, gradients by value_and_grad and training steps against NumPy in f64; and
the graph mode over aclnn, with the sentence that refuses the graph engine."""
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn

TOKENS, WIDTH, HEADS, WORDS = 12, 32, 4, 50
random = np.random.default_rng(7)
ms.set_device("Ascend", 0)


def weight(*shape):
    return Parameter(Tensor(random.standard_normal(shape) * 0.1, ms.float32))


class Transformer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.words = weight(WORDS, WIDTH)
        self.q, self.k, self.v, self.o = (weight(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = weight(WIDTH, 4 * WIDTH), weight(4 * WIDTH, WIDTH)
        self.scale = [Parameter(Tensor(np.ones(WIDTH), ms.float32), name=f"scale{i}") for i in range(2)]
        self.shift = [Parameter(Tensor(np.zeros(WIDTH), ms.float32), name=f"shift{i}") for i in range(2)]
        self.mask = Tensor(np.triu(np.full((TOKENS, TOKENS), -1e9), 1), ms.float32)

    def norm(self, x, i):
        return mint.nn.functional.layer_norm(x, (WIDTH,), self.scale[i], self.shift[i])

    def heads(self, x):
        return mint.permute(mint.reshape(x, (-1, TOKENS, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    def construct(self, ids):
        x = mint.nn.functional.embedding(ids, self.words)
        y = self.norm(x, 0)
        q, k, v = (self.heads(mint.matmul(y, w)) for w in (self.q, self.k, self.v))
        scores = mint.matmul(q, mint.transpose(k, -1, -2)) * (WIDTH // HEADS) ** -0.5 + self.mask
        y = mint.matmul(mint.nn.functional.softmax(scores, -1), v)
        x = x + mint.matmul(mint.reshape(mint.permute(y, (0, 2, 1, 3)), (-1, TOKENS, WIDTH)), self.o)
        x = x + mint.matmul(mint.nn.functional.silu(mint.matmul(self.norm(x, 1), self.up)), self.down)
        return mint.matmul(x, mint.transpose(self.words, 0, 1))


net = Transformer()
parameters = [net.words, net.q, net.k, net.v, net.o, net.up, net.down, *net.scale, *net.shift]
for i, p in enumerate(parameters):
    p.name = f"p{i}"
ids = Tensor(random.integers(0, WORDS, (2, TOKENS)), ms.int64)
targets = mint.reshape(Tensor(random.integers(0, WORDS, (2, TOKENS)), ms.int64), (-1,))


def loss(ids, targets):
    logits = mint.reshape(net(ids), (-1, WORDS))
    picked = mint.gather(logits, 1, mint.reshape(targets, (-1, 1)))
    return mint.mean(mint.log(mint.sum(mint.exp(logits), 1, True)) - picked)


def reference(values):
    """Logits and loss."""
    words, q, k, v, o, up, down, scale0, scale1, shift0, shift1 = values

    def norm(x, scale, shift):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def heads(x):
        return x.reshape(-1, TOKENS, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    x = words[ids.asnumpy()]
    y = norm(x, scale0, shift0)
    scores = heads(y @ q) @ heads(y @ k).transpose(0, 1, 3, 2) * (WIDTH // HEADS) ** -0.5 + np.triu(np.full((TOKENS, TOKENS), -1e9), 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ heads(y @ v)
    x = x + y.transpose(0, 2, 1, 3).reshape(-1, TOKENS, WIDTH) @ o
    y = norm(x, scale1, shift1) @ up
    x = x + y / (1 + np.exp(-y)) @ down
    logits = x @ words.T
    flat = logits.reshape(-1, WORDS)
    return logits, (np.log(np.exp(flat).sum(1)) - flat[np.arange(len(flat)), targets.asnumpy()]).mean()


def numbers():
    return [p.asnumpy().astype(np.float64) for p in parameters]


np.testing.assert_allclose(net(ids).asnumpy(), reference(numbers())[0], rtol=1e-3, atol=1e-4)
step = ms.value_and_grad(loss, None, parameters)
losses = []
for _ in range(3):
    value, gradients = step(ids, targets)
    before = numbers()
    losses.append(float(value.asnumpy()))
    np.testing.assert_allclose(losses[-1], reference(before)[1], rtol=1e-4)
    for i, gradient in enumerate(gradients):  # along a direction of each parameter
        way = random.standard_normal(before[i].shape)
        ends = [reference([p + (e * way if k == i else 0) for k, p in enumerate(before)])[1] for e in (1e-5, -1e-5)]
        np.testing.assert_allclose((gradient.asnumpy() * way).sum(), (ends[0] - ends[1]) / 2e-5, rtol=2e-3, atol=2e-5)
    for p, gradient in zip(parameters, gradients):
        p.set_data(p - 0.5 * gradient)
assert losses[2] < losses[1] < losses[0], losses

# As a graph whose operators are aclnn's; compiled by the graph engine it is refused.
ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
np.testing.assert_allclose(net(ids).asnumpy(), reference(numbers())[0], rtol=1e-3, atol=1e-4)


def squares(x):  # MindSpore's compiler does not differentiate an embedding
    return mint.sum(mint.square(mint.matmul(x, net.up)))


x = random.standard_normal((5, WIDTH)).astype(np.float32)
_, (gradient,) = ms.value_and_grad(squares, None, [net.up])(Tensor(x))
np.testing.assert_allclose(gradient.asnumpy(), 2 * x.T @ (x @ net.up.asnumpy()), rtol=1e-3, atol=1e-3)
ms.set_context(jit_config={"jit_level": "O2"})
try:
    nn.ReLU()(Tensor(x)).asnumpy()
    raise SystemExit("the graph engine ran")
except RuntimeError as error:
    assert "there is no graph engine (GE) under weir" in str(error), error
print("fine")
