"""Random networks of layers with parameters that models seldom have: strides, dilations and groups of convolutions,
pools that pad, norms over several dims, resampling, attention with masks that hide whole rows, scans and sorts.

A network is compiled once and called with several batches and sizes, some in channels_last, expanded or cut out of
a larger tensor. Its results are as near to those in float64 as eager PyTorch's are.

    python tests/python/_torch/networks.py [--seconds 60] [--first 0] [--device cpu]
"""

import linecache
import random

import programs
import torch

F = torch.nn.functional
LARGEST = 60000  # elements of an intermediate result
EPS = {torch.float64: 1e-9, torch.float32: 3e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}


class Network:
    def __init__(self, seed, length=None):
        self.pick = r = random.Random(seed)
        self.seed, self.lines, self.shapes = seed, [], []
        self.dtype = r.choice((torch.float32,) * 4 + (torch.float64, torch.bfloat16, torch.float16))
        self.rank = r.choice((2, 3, 3, 4, 4, 4, 5))
        self.channels = r.choice((1, 2, 3, 4, 6, 8, 12))
        self.sizes = [self._size() for _ in range(3)]
        self.layout = r.choice(("dense", "dense", "last", "cut", "expanded", "turned"))
        self.kept = []
        self._function(["x"])
        length = length or r.randint(1, 6)
        for _ in range(length):
            self._add()
        self._function(["x", *self.kept])
        self.dynamic = r.choice((False, None, True))

    def _size(self):
        r, low = self.pick, 1 if self.pick.random() < 0.15 else 2
        most = {2: 0, 3: 70, 4: 19, 5: 8}[self.rank]
        return (r.randint(low, 5), self.channels, *(r.randint(low + 1, most) for _ in range(self.rank - 2)))

    def tensor(self, size, seed, layout=None):
        shape, g, layout = list(size), torch.Generator().manual_seed(1000 * self.seed + seed), layout or self.layout
        if layout == "expanded":
            shape[1] = 1
        if layout == "turned":
            shape[-1], shape[0] = shape[0], shape[-1]
        if layout == "cut":
            shape = [n + 2 for n in shape]
        x = torch.randn(shape, generator=g, dtype=torch.float64).to(self.dtype)
        if layout == "last" and len(shape) in (4, 5):
            return x.to(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
        if layout == "expanded":
            return x.expand(size)
        if layout == "turned":
            return x.transpose(0, -1)
        if layout == "cut":
            return x[tuple(slice(1, n + 1) for n in size)]
        return x

    def weights(self, dtype=None):
        made = []
        for i, (shape, scale, add) in enumerate(self.shapes):
            g = torch.Generator().manual_seed(7000 * self.seed + i)
            made.append((torch.randn(shape, generator=g, dtype=torch.float64) * scale + add).to(self.dtype))
        return [w.to(dtype) for w in made] if dtype else made

    def _weight(self, *shape, scale=None, add=0.0):
        fan = 1
        for n in shape[1:]:
            fan *= n
        self.shapes.append((shape, scale or fan**-0.5, add))
        return f"p[{len(self.shapes) - 1}]"

    def _function(self, results):
        body = "".join(f"    {line}\n" for line in self.lines)
        self.source = f"def network(x, p):\n{body}    return {', '.join(results)},\n"
        name = f"<network {self.seed}>"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(True), name
        space = {"torch": torch, "F": F, "INF": float("inf")}
        exec(compile(self.source, name, "exec"), space)
        self.function = space["network"]

    def _add(self):
        for _ in range(20):
            lines, shapes = list(self.lines), list(self.shapes)
            try:
                with torch.no_grad():
                    now = [self._result(size)[0] for size in self.sizes[:2]]
                    made = self._layer(now[0])
                    self.lines += made if isinstance(made, list) else [made]
                    self._function(["x"])
                    after = [self._result(size)[0] for size in self.sizes]
                fits = all(0 < t.numel() < LARGEST and t.is_floating_point() for t in after)
                if fits and len({t.ndim for t in after}) == 1 and all(t.isfinite().all() for t in after):
                    if self.pick.random() < 0.15:
                        self.lines.append(f"y{len(self.lines)} = x")
                        self.kept.append(self.lines[-1].split()[0])
                    return
            except Exception:  # the layer does not fit
                pass
            self.lines, self.shapes = lines, shapes
            self._function(["x"])

    def _result(self, size):
        return self.function(self.tensor(size, 1).double(), self.weights(torch.float64))

    # ---- layers: lines of text ----

    def _layer(self, x):
        kinds = [self._any, self._any, self._rows]
        if x.ndim in (3, 4, 5):
            kinds += [self._convolution, self._pool, self._norm, self._moved]
        if x.ndim in (2, 3):
            kinds += [self._rows]
        if x.ndim in (3, 4):
            kinds += [self._attention]
        return self.pick.choice(kinds)(x)

    def _each(self, n, values):
        r = self.pick
        if r.random() < 0.5:
            return repr(r.choice(values))
        return repr(tuple(r.choice(values) for _ in range(n)))

    def _convolution(self, x):
        r, n, c = self.pick, x.ndim - 2, x.shape[1]
        groups = r.choice([g for g in range(1, c + 1) if c % g == 0])
        out = groups * r.choice((1, 2, 3))
        kernel = [r.choice((1, 1, 2, 3, 5)) for _ in range(n)]
        bias = r.choice(("None", self._weight(out, scale=1.0)))
        if r.random() < 0.25:
            w = self._weight(c, out // groups, *kernel, scale=0.3)
            return (f"x = F.conv_transpose{n}d(x, {w}, {bias}, stride={self._each(n, (1, 2, 3))}, "
                    f"padding={self._each(n, (0, 0, 1))}, output_padding={self._each(n, (0, 0, 1))}, "
                    f"groups={groups}, dilation={self._each(n, (1, 1, 2))})")  # fmt: skip
        w = self._weight(out, c // groups, *kernel)
        padding = r.choice((self._each(n, (0, 1, 2)), '"same"', '"valid"'))
        stride = "1" if "same" in padding else self._each(n, (1, 1, 2, 3))
        return f"x = F.conv{n}d(x, {w}, {bias}, {stride}, {padding}, {self._each(n, (1, 1, 2, 3))}, {groups})"

    def _pool(self, x):
        r, n = self.pick, x.ndim - 2
        size, stride = self._each(n, (1, 2, 3, 4)), r.choice(("None", self._each(n, (1, 2, 3))))
        ceil, padding = r.random() < 0.4, self._each(n, (0, 0, 1))
        found = [
            f"x = F.max_pool{n}d(x, {size}, {stride}, {padding}, {self._each(n, (1, 1, 2))}, ceil_mode={ceil})",
            f"x = F.avg_pool{n}d(x, {size}, {stride}, {padding}, ceil_mode={ceil}, "
            f"count_include_pad={r.random() < 0.5})",
            f"x = F.adaptive_avg_pool{n}d(x, {self._each(n, (1, 2, 3, 5))})",
            f"x = F.adaptive_max_pool{n}d(x, {self._each(n, (1, 2, 3))})",
        ]
        if n == 2:
            found += [
                f"x = F.avg_pool2d(x, {size}, {stride}, {padding}, {ceil}, True, {r.choice((2, 3, 5))})",
                "x, at = F.max_pool2d(x, 2, 2, return_indices=True)\n    x = F.max_unpool2d(x, at, 2, 2)",
                f"x = F.lp_pool2d(x.abs() + 0.1, 2.0, 2, {stride}, ceil_mode={ceil})",
                "x, at = F.max_pool2d(x, 3, 1, 1, return_indices=True)\n    x = x + at.to(x.dtype) * 0.01",
            ]
        return r.choice(found)

    def _norm(self, x):
        r, c = self.pick, x.shape[1]
        groups = r.choice([g for g in range(1, c + 1) if c % g == 0])
        w, b = r.choice(((self._weight(c, scale=0.3, add=1.0), self._weight(c, scale=0.5)), ("None", "None")))
        eps = r.choice((1e-5, 1e-3, 0.5))
        if r.random() < 0.3:
            mean, var = self._weight(c, scale=0.5), self._weight(c, scale=0.1, add=1.0)
            return f"x = F.batch_norm(x, {mean}, {var}.abs() + 0.1, {w}, {b}, False, 0.1, {eps})"
        return r.choice([
            f"x = F.group_norm(x, {groups}, {w}, {b}, {eps})",
            f"x = F.instance_norm(x, weight={w}, bias={b}, eps={eps}) if x[0, 0].numel() > 1 else x",
            f"x = F.batch_norm(x, None, None, {w}, {b}, True, 0.1, {eps}) if x.numel() // x.shape[1] > 1 else x",
            f"x = F.local_response_norm(x, {r.choice((1, 2, 3))})",
            f"x = F.layer_norm(x, x.shape[{r.randint(1, x.ndim - 1)}:], eps={eps})",
            f"x = F.normalize(x, dim={r.randrange(x.ndim)}, eps=0.1)",
            f"x = F.rms_norm(x, x.shape[{r.randint(1, x.ndim - 1)}:], eps={eps})",
        ])  # fmt: skip

    def _moved(self, x):
        r, n = self.pick, x.ndim - 2
        modes = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}[n]
        mode, align = r.choice(("nearest", "nearest-exact", "area", *modes)), r.choice((True, False))
        extra = f", align_corners={align}" if mode in modes else ""
        pad = [r.choice((0, 1, 2, -1)) for _ in range(2 * r.randint(1, x.ndim))]
        more = [abs(v) for v in pad][: 2 * n] + [0] * (2 * n - len(pad))
        found = [
            f'x = F.interpolate(x, scale_factor={r.choice((2, 0.5, 1.5))}, mode="{mode}"{extra})',
            f'x = F.interpolate(x, size={tuple(r.randint(1, 9) for _ in range(n))}, mode="{mode}"{extra})',
            f"x = F.pad(x, {tuple(pad)}, value={r.choice((0, 1.5, -2))})",
            f'x = F.pad(x, {tuple(more)}, mode="{r.choice(("reflect", "replicate", "circular"))}")',
        ]
        if n == 2:
            found += [
                "x = F.pixel_shuffle(x, 2)", "x = F.pixel_unshuffle(x, 2)", "x = F.channel_shuffle(x, 2)",
                f"x = F.unfold(x, {r.choice((1, 2, 3))}, {r.choice((1, 2))}, {r.choice((0, 1))}, {r.choice((1, 2))})",
                "x = F.fold(F.unfold(x, 2, 1, 1), x.shape[2:], 2, 1, 1)",
                "x = x.unfold(2, 2, 1).unfold(3, 2, 2).flatten(4).mean(-1)",
                "x = F.grid_sample(x, F.affine_grid(torch.tensor([[[0.9, 0.2, 0.1], [-0.1, 1.1, 0.0]]], "
                "dtype=x.dtype).expand(x.shape[0], 2, 3), x.shape, align_corners=False), align_corners=False)",
            ]  # fmt: skip
        return r.choice(found)

    def _attention(self, x):
        r = self.pick
        lines = []
        if x.ndim == 4:
            q = r.choice(("x", "x.transpose(1, 2)", "x.permute(0, 1, 3, 2)"))
        else:
            q = r.choice(("x[:, None]", "x", "x.unflatten(-1, (-1, 1)).transpose(1, 2)", "x.transpose(1, 2)[:, None]"))
        lines.append(f"q = {q}")
        k, v = (r.choice(("q", "q * 0.5", "q.flip(-2)", "q[..., 1:, :]", "torch.cat([q, q + 1], -2)")) for _ in range(2))
        lines.append(f"k, v = {k}, {v if r.random() < 0.2 else k.replace('q', '(q - 0.3)')}")
        if r.random() < 0.2:
            lines.append("v = v[..., :1] if v.shape[-1] > 1 else torch.cat([v, v], -1)")
        mask = r.choice((
            "", "", "is_causal=True", "attn_mask=(q @ k.transpose(-1, -2)) > 0", "attn_mask=(q @ k.transpose(-1, -2)) > 1.5",
            "attn_mask=torch.where((q @ k.transpose(-1, -2)) > 0.5, 0.0, -INF).to(q.dtype)",
            "attn_mask=(q @ k.transpose(-1, -2)).sin()", "attn_mask=torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()",
            "attn_mask=torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])",
            "attn_mask=torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)",
            "attn_mask=torch.arange(k.shape[-2])[None] < 2", "attn_mask=torch.full((1, k.shape[-2]), -INF, dtype=q.dtype)",
        ))  # fmt: skip
        if "q @" in mask and self.dtype not in (torch.float32, torch.float64) and "sin" not in mask:
            mask = ""
        scale = r.choice(("", "", "scale=0.7", "scale=-0.5", "scale=3"))
        group = ""
        if r.random() < 0.2:
            lines.append("k, v = k[..., :1, :, :] if k.ndim > 3 else k, v[..., :1, :, :] if v.ndim > 3 else v")
            group = "enable_gqa=True"
        lines.append(f"x = F.scaled_dot_product_attention({', '.join(['q', 'k', 'v', *filter(None, (mask, scale, group))])})")
        if r.random() < 0.6:
            lines.append(r.choice(("x = x.transpose(-2, -3)", "x = x.transpose(-2, -3).flatten(-2)", "x = x.flatten(1)")))
        return lines

    def _rows(self, x):
        r, c = self.pick, x.shape[-1]
        out = r.choice((1, 2, 5, 8, 16, 33))
        w, b = self._weight(out, c), r.choice(("None", self._weight(out, scale=1.0)))
        found = [f"x = F.linear(x, {w}, {b})", f"x = x @ {self._weight(c, out, scale=c**-0.5)}",
                 f"x = F.relu(F.linear(x, {w}, {b})) + 1", f"x = F.gelu(F.linear(x, {w}, {b}))",
                 f"x = F.bilinear(x, x.flip(-1), {self._weight(3, c, c, scale=1 / c)})",
                 f"x = F.linear(x, {self._weight(c, c)}, None) + x", f"x = F.glu(F.linear(x, {self._weight(6, c)}), -1)",
                 f"x = F.layer_norm(x, ({c},), {self._weight(c, scale=0.2, add=1.0)}, {r.choice(('None', self._weight(c, scale=1.0)))})",
                 f"x = F.rms_norm(x, ({c},), {self._weight(c, scale=0.2, add=1.0)}, 1e-5)",
                 f"x = torch.cdist(x, {self._weight(4, c)})", f"x = F.cosine_similarity(x[..., None, :], {self._weight(4, c)}, -1)",
                 f"x = torch.tensordot(x, {self._weight(c, 3, scale=c**-0.5)}, 1)",
                 f"x = torch.einsum('...c,cd->...d', x, {self._weight(c, 4)})",
                 f"x = x + F.embedding((x.detach()[..., 0] > 0).long(), {self._weight(3, c)})",
                 f"x = torch.baddbmm({self._weight(1, 1, c)}, x, x.transpose(1, 2) @ x, beta=0.5, alpha=0.25)"]  # fmt: skip
        return r.choice(found)

    def _any(self, x):
        r = self.pick
        d, e = r.randrange(x.ndim), r.randrange(x.ndim)
        n = x.shape[d]
        found = [
            "x = F.relu(x)", "x = F.silu(x) * x.sigmoid()", "x = F.gelu(x, approximate='tanh')", "x = x.tanh() + 0.5",
            "x = F.softplus(x)", "x = F.elu(x, 0.7)", "x = F.hardswish(x)", "x = F.mish(x)", "x = F.leaky_relu(x, 0.2)",
            f"x = F.prelu(x, {self._weight(1, scale=0.2)})", f"x = x.softmax({d})", f"x = x.log_softmax({d})",
            f"x = x.cumsum({d}) / {n}", f"x = x - x.mean({d}, keepdim=True)", f"x = x / (x.std({d}, keepdim=True) + 1)" if n > 2 else "",
            f"x = x.transpose({d}, {e})", f"x = x.transpose({d}, {e}).contiguous()", f"x = x.flip({d}, {e})" if d != e else "",
            f"x = x.roll(1, {d}) - x", f"x = torch.cat([x, x.neg()], {d})", f"x = x.sum({d})" if x.ndim > 2 else "",
            f"x = x.amax({d}, keepdim=True) - x", f"x = x.logsumexp({d}, keepdim=True) + x", f"x = x.sort({d})[0]",
            f"x = x.topk(min(2, x.shape[{d}]), {d})[0]", f"x = x.narrow({d}, 1, x.shape[{d}] - 1)", f"x = x.flatten({min(d, e)}, {max(d, e)})",
            f"x = x.repeat_interleave(2, {d})", f"x = x.cummax({d})[0]", f"x = x.unsqueeze({d})" if x.ndim < 5 else "",
            f"x = torch.stack([x, x * 2], {d}).sum({d})", f"x = x.select({d}, -1)" if x.ndim > 2 else "", f"x = x.diff(dim={d})",
            f"x = torch.where(x > 0, x, x.mean({d}, keepdim=True))", "x = x.clamp(-1.5, 1).square()", f"x = x.var({d}, keepdim=True) + x" if n > 2 else "",
            f"x = x.kthvalue(1, {d}, keepdim=True)[0] + x", f"x = torch.lerp(x, x.flip({d}), 0.3)", f"x = x.prod({d}, keepdim=True) + x",
            f"x = x.view(x.shape[0], -1)", f"x = x.reshape(-1, x.shape[-1])", f"x = x.index_select({d}, torch.tensor([0, -1 + x.shape[{d}], 0]))",
            f"x = x.movedim({d}, {e})", f"x = torch.roll(x, (1, -1), ({d}, {e})) + x", f"x = x.norm(dim={d}, keepdim=True) * x",
            "x = (x * 2).round() * 0.5" if self.dtype in (torch.float64,) else "", f"x = x.tril() if x.ndim > 1 else x", "x = x.triu(-1) * 2",
            f"x = x.logcumsumexp({d})", f"x = x.gather({d}, torch.zeros_like(x, dtype=torch.long))", f"x = x * torch.arange(x.shape[{d}]).to(x.dtype).reshape([-1 if i == {d} else 1 for i in range(x.ndim)])",
            f"x = x.scatter({d}, torch.zeros_like(x.narrow({d}, 0, 1), dtype=torch.long), 1.5)", "x = F.dropout(x, 0.3, training=False)",
            f"x = torch.nn.functional.threshold(x, 0.1, -0.2)", f"x = x.masked_fill(x > 1, 0.25)", f"x = x.contiguous(memory_format=torch.channels_last) * 2" if x.ndim == 4 else "",
            f"x = x.expand(2, *x.shape)" if x.ndim < 5 else "", f"x = x.chunk(2, {d})[0]", f"x = torch.tensor_split(x, 3, {d})[1] if x.shape[{d}] > 2 else x",
            f"x = x.as_strided(x.shape, x.stride())", f"x = x.square().mean({d}, keepdim=True).rsqrt() * x", f"x = x.nan_to_num().abs().sqrt()",
        ]  # fmt: skip
        return r.choice([line for line in found if line])

    def text(self):
        return f"{self.dtype} {self.layout} {self.sizes} dynamic={self.dynamic} {self.shapes}\n{self.source}"


def differs(got, want, truth, dtype):
    """A sentence, or None. ``truth`` is in f64."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {tuple(got.shape)} instead of {want.dtype} {tuple(want.shape)}"
    if not torch.equal(got.isnan(), want.isnan()):
        return f"NaN at {got.isnan().nonzero()[:3].tolist()} instead of {want.isnan().nonzero()[:3].tolist()}"
    got, want = got.double().nan_to_num(), want.double().nan_to_num()
    truth = torch.where(truth.isnan(), want, truth)
    size = max(1.0, truth.abs().max().item() if truth.numel() else 1.0)
    ours, theirs = (got - truth).abs(), (want - truth).abs()
    allowed = 6 * theirs.max().item() + EPS[dtype] * size if truth.numel() else 0
    if truth.numel() and ours.max().item() > allowed:
        at = int(ours.argmax())
        return (f"{got.flatten()[at].item()} at {at} of {tuple(got.shape)}, not {truth.flatten()[at].item()}; "
                f"eager {want.flatten()[at].item()}; {int((ours > allowed).sum())} differ so")  # fmt: skip
    return None


def run(network, backend, calls=4):
    """(calls compared, sentences)."""
    torch._dynamo.reset()
    compiled = torch.compile(network.function, backend=backend, dynamic=network.dynamic)
    weights, wide, done = network.weights(), network.weights(torch.float64), 0
    for call in range(calls):
        size = network.sizes[call % 3]
        layout = network.layout if call != 2 else "dense"
        x = network.tensor(size, call, layout)
        with torch.no_grad():
            try:
                want = network.function(x, weights)
                truth = network.function(x.double(), wide)
            except Exception:
                continue
            got = compiled(x, weights)
        wrong = [(i, differs(*three, network.dtype)) for i, three in enumerate(zip(got, want, truth, strict=True))]
        wrong = [f"call {call} of {size}: result {i}: {text}" for i, text in wrong if text]
        strides = [programs._describe(t)["strides"] for t in got], [programs._describe(t)["strides"] for t in want]
        if not wrong and strides[0] != strides[1]:
            wrong = [f"call {call}: strides {strides[0]} instead of {strides[1]}"]
        if wrong:
            return done, wrong
        done += 1
    return done, []


def try_seed(seed):
    """(calls compared, sentences about what is wrong)."""
    network, pick = Network(seed), random.Random(-seed)
    try:
        done, wrong = run(network, programs.backend_for(pick))
    except Exception as error:
        done, wrong = 0, [f"{type(error).__name__}: {str(error)[:600]}"]
    if not wrong:
        return done, []
    try:
        if run(network, "aot_eager")[1]:
            return 0, []
    except Exception:
        return 0, []  # PyTorch refuses it without weir, too
    return done, [f"seed {seed}", *wrong, network.text()]


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("random networks against eager PyTorch", "calls of networks", try_seed))
