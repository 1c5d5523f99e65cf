"""Programs that look like what weir has as one operator, and may be something else.

Each template is text as models write it. A choice ``{a|b|c}`` is its first alternative mostly, and one of the
others at times: another dim, number, type, order or operand, or an intermediate result that is returned too.
Whether a rewrite finds its pattern in such a program or not, the values are eager PyTorch's.

    python tests/python/_torch/lookalikes.py [--seconds 60] [--first 0] [--device cpu]
"""

import linecache
import random

import programs
import torch

F = torch.nn.functional
INF = float("inf")

TEMPLATES = {
    "norm": """
wide = x{.float()|.float()|.float()||.double()|.to(torch.bfloat16).float()}
mean = (wide{.pow(2)| * wide|.square()|.pow(3).abs()| * x|.abs()| * wide * 2}).{mean|mean|mean|sum|amax}({-1|-1|-1|1|(-1,)|(-2, -1)|0}, keepdim=True)
root = {torch.rsqrt|torch.rsqrt|torch.rsqrt|torch.sqrt|torch.reciprocal}(mean + {1e-5|1e-5|1|0.5|e|torch.finfo(wide.dtype).eps})
{normed = wide * root|normed = root * wide|normed = x * root|normed = (wide + 0) * root|normed = wide / root}
{made = w * normed.to(x.dtype)|made = normed.to(x.dtype) * w|made = (w * normed).to(x.dtype)|made = (1 + w) * normed.to(x.dtype)|made = w.float() * normed|made = v[:, None] * normed.to(x.dtype)|made = w * normed.to(torch.bfloat16)}
{made = made + 1|made = made * made|made = made @ a.to(made.dtype)||made = F.silu(made)}
return made,{| root,| mean,| normed,| wide,| made.float(),| x + made,}
""",
    "turn": """
angles = torch.outer(t, f)
emb = torch.cat(({angles, angles|angles, angles|angles, -angles|angles, angles + 1|angles.flip(-1), angles}), dim=-1)
cos, sin = {emb.cos() * 2.0|emb.cos()|emb.cos()|emb.sin()|emb.cos() * emb}, emb.sin(){| * 2.0| * -1}
cos, sin = cos[None, {None|None|None|:, None}].to(q.dtype), sin[None, {None|None|None|:, None}].to(q.dtype)
one, two = {q[..., :4], q[..., 4:]|q[..., :4], q[..., 4:]|q.chunk(2, -1)|q[..., ::2], q[..., 1::2]|q[..., 4:], q[..., :4]|k[..., :4], q[..., 4:]|q[..., :4], q[..., -4:]|q[..., :3], q[..., 3:]}
turned = torch.cat(({-two, one|-two, one|-two, one|two, -one|-one, two|two, one|-two, -one}), dim={-1|-1|3})
{made = q * cos + turned * sin|made = (q * cos) + (turned * sin)|made = q * cos - turned * sin|made = k * cos + turned * sin|made = turned * sin + cos * q|made = q * cos + turned * cos|made = torch.add(q * cos, turned * sin, alpha=2)|made = q.float() * cos + turned * sin}
return made,{| turned,| q * cos,| cos,| made.transpose(1, 2),}
""",
    "pairs": """
z = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
angles = torch.outer(t, f)
turn = torch.polar({torch.ones_like(angles)|torch.full_like(angles, 2.0)|angles}, angles)
{made = z * turn|made = z * turn[None, None]|made = z * turn.conj()|made = (z * turn) * turn|made = z * (turn * 2)|made = z + turn|made = z * angles}
made = torch.view_as_real(made).{flatten(3)|flatten(-2)|transpose(-1, -2).flatten(3)}
return made{.to(q.dtype)|.type_as(q)|},{| torch.view_as_real(z),| made.abs(),}
""",
    "pieces": """
made = {torch.empty_like(x)|torch.empty_like(x)|x.new_empty(x.shape)|torch.zeros_like(x)|x.clone()}
left, right = {x[..., :n] * 2, x[..., n:] + 1|y[..., :n], x[..., n:]|x[..., :n].neg(), x[..., :-n].flip(-1)[..., : 8 - n]|x[..., 0:1], x[..., n:]}
{made[..., :n] = left|made[..., :n] = left|made[..., n:] = right|made[..., 0:n].copy_(left)}
{made[..., n:] = right|made[..., n:] = right|made[..., :n] = left|made[..., n:].copy_(right)|made[..., n:] += right}
{made[..., :n] = left|made[..., n:] = right|made[..., :] = x|made[:] = made.flip(0)|made[..., n : n + 1] = 3}
{made[..., n:] = right||made = torch.cat([made, made[..., :n]], -1)|made = torch.cat([torch.cat([x, y], -1), made], -1)|made = torch.cat([torch.cat([x, y], {1|0|-1}), torch.cat([y, x], {1|0|-1})], {1|0|-1})}
return made,{| left,| made[..., :n],| made * 2,}
""",
    "attention": """
scores = torch.matmul({q|q|q * 0.5|k}, k.transpose({2, 3|-1, -2})) {* 0.35| / 2.0|| * -0.5| * e}
mask = {torch.ones(6, 6, dtype=torch.bool).tril()|torch.ones(6, 6, dtype=torch.bool).tril(1)|torch.ones(6, 6, dtype=torch.bool).triu()|torch.ones(6, 6, dtype=torch.bool)|torch.ones(6, 6, dtype=torch.bool).tril().logical_not()|(torch.arange(6)[:, None] - torch.arange(6)).abs() < 3|g|h}
{scores = scores.masked_fill(~mask, LOW)|scores = scores + torch.where(mask, 0.0, LOW).to(scores.dtype)|scores = torch.where(mask, scores, LOW)|scores = scores + mask|scores = scores.masked_fill(mask, LOW)|}
p = {F.softmax(scores, dim=-1)|torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype)|F.softmax(scores, dim=-2)|torch.sigmoid(scores)|F.softmax(scores.float(), -1).type_as(q)|torch.exp(scores - scores.amax(-1, keepdim=True))}
{made = p @ k|made = p @ q|made = torch.matmul(p, k.transpose(2, 3).transpose(2, 3))|made = p.transpose(2, 3) @ k}
made = made.transpose({1, 2|1, 2|2, 3|0, 1})
return made{|.reshape(made.shape[0], -1)},{| p,| scores,| made * 2,}
""",
    "dotted": """
mask = {torch.ones(6, 6, dtype=torch.bool).tril()|torch.ones(6, 6, dtype=torch.bool).tril(1)|torch.ones(6, 6, dtype=torch.bool).tril(-1)|torch.ones(6, 6, dtype=torch.bool)|torch.ones(6, 6, dtype=torch.bool).triu()|(torch.arange(6)[:, None] - torch.arange(6)).abs() < 3|g|h|g & h|g.any(-1, keepdim=True)|torch.ones(1, 6, dtype=torch.bool)}
{|mask = torch.where(mask, 0.0, LOW).to(q.dtype)|mask = torch.zeros(6, 6, dtype=q.dtype).masked_fill(~mask, LOW)|mask = mask.to(q.dtype)|mask = torch.where(mask, LOW, 0.0).to(q.dtype)|mask = mask[None, None].expand(2, 1, 6, 6) if mask.shape == (6, 6) else mask|mask = torch.where(mask, 0.0, LOW).to(q.dtype) * 0.5}
keys, values = {k, k|k, k * 2|k[:, :1].expand(k.shape), k[:, :1].expand(k.shape)|k[:, :1].repeat_interleave(2, 1), k[:, :1].repeat_interleave(2, 1)|k[:, :1, None].expand(2, 1, 2, 6, 8).reshape(k.shape), k[:, :1, None].expand(2, 1, 2, 6, 8).reshape(k.shape)|k.flip(1).repeat(1, 2, 1, 1)[:, :2], k.repeat(1, 2, 1, 1)[:, 1:3]|k[..., :4], k|k[..., :8], k[..., :5]|k.repeat(1, 1, 2, 1)[:, :, 3:9], k}
{keys = keys|keys = keys if keys.shape[-1] == 8 else k}
made = F.scaled_dot_product_attention(q, keys, values{, attn_mask=mask|, attn_mask=mask|, is_causal=True|}{|, scale=0.2|, scale=1.0|, scale=-0.3|, scale=e})
{made = made.transpose(1, 2)|made = made.transpose(1, 2).contiguous()|made = made.permute(0, 2, 1, 3).reshape(2, 6, -1)|made = made.transpose(-1, -2)|made = made.flatten(2)|made = made + made.amax(-1, keepdim=True)}
return made,{| made.transpose(0, 1),| mask,| keys,}
""",
    "gate": """
scores = {F.softmax(l, dim=-1, dtype=torch.float)|l.float().softmax(-1)|l.float().sigmoid()|l.float().softmax(0)|l.float().tanh()|l.softmax(-1)}
choice = {scores|scores + b|scores + b|scores * b|b + scores|scores - b|scores + b[:, None].sum(0)}
grouped = choice.view(-1, {4, 2|2, 4|8, 1})
counted = grouped.{amax(-1)|topk(2, dim=-1)[0].sum(-1)|topk(2, dim=-1)[0].sum(-1)|sum(-1)|amin(-1)|topk(2, dim=-1, largest=False)[0].sum(-1)|topk(1, dim=-1)[0].sum(-1)}
best = torch.topk(counted, k={2|1|1}, dim=-1{|, sorted=False|, largest=False})[{1|1|1}]
hits = torch.zeros_like(counted).scatter_(1, best, {1|1|1|0|2|0.5})
hits = hits.unsqueeze(-1).expand(grouped.shape).reshape(choice.shape)
choice = {choice|choice|choice.masked_fill(~hits.bool(), -INF)|choice.masked_fill(~hits.bool(), 0.0)|choice.masked_fill(hits.bool(), -INF)|choice.masked_fill(hits == 0, -INF)|choice * hits}
values, experts = torch.topk(choice, {2|2|1|3}, dim={-1|-1|1}{|, sorted=True})
{weights = values|weights = scores.gather(1, experts)|weights = scores.gather(1, experts)|weights = choice.gather(1, experts)|weights = scores.gather(1, experts.flip(1))|weights = l.float().gather(-1, experts)}
{weights = weights / weights.sum(dim=-1, keepdim=True)|weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)|weights = weights / (weights.sum(dim=-1, keepdim=True) + 0.5)||weights = weights / weights.sum(0, keepdim=True)|weights = weights / weights.amax(-1, keepdim=True)|weights = weights / (weights.sum(dim=-1, keepdim=True) - 3.5)|weights = weights / torch.add(weights.sum(dim=-1, keepdim=True), 0.25, alpha=2)}
{weights = weights * 2.5||weights = weights * 2|weights = weights * -1.0|weights = weights * e|weights = weights / 2.0}
{weights = weights|weights = weights.to(l.dtype)|weights = weights / weights.sum(dim=-1, keepdim=True)}
return weights, experts,{| scores,| choice,| values,| counted,| experts.int(),| weights * 2,}
""",
    "experts": """
p = {F.softmax(l, dim=-1, dtype=torch.float)|l.float().sigmoid()}
weights, experts = torch.topk(p, {2|2|1|3}, dim=-1{|, largest=False})
ids = experts.reshape(-1){||| + 0|.flip(0)|.int()| * 0 + 1|[:5]}
ordered, perm = torch.sort(ids{|, descending=True|, dim=0})
counts = torch.histc(ordered.{float()|float()|int()}, bins={8|8|9|10}, min={0|0|1|-1}, max={7|7|8|9})
ends = torch.cumsum(counts, dim=0, dtype=torch.{int32|int32|int64})
{rows = x2[perm // experts.shape[1]]|rows = x2[perm // 2 % 4]|rows = x2[perm % x2.shape[0]]|rows = x2[torch.div(perm, experts.shape[1], rounding_mode="floor")]|rows = x2[perm // experts.shape[1] - 1]}
per = weights.reshape(-1)[perm]
made = rows * {2.0|(1 + ordered[:, None])|ordered[:, None].to(x2.dtype)}
made = made * per{.unsqueeze(-1)|[:, None]|.unsqueeze(-1).to(x2.dtype)|.flip(0).unsqueeze(-1)}
inverse = {torch.empty_like(perm)|torch.zeros_like(perm)|torch.full_like(perm, 2)}
{inverse[perm] = torch.arange(perm.size(0))|inverse = torch.argsort(perm)|inverse[perm] = torch.arange(perm.size(0)) // 2|inverse[perm] = torch.arange(perm.size(0)).flip(0)|inverse.scatter_(0, perm, torch.arange(perm.size(0)))}
back = made[inverse]
back = back.view({-1, experts.shape[1] if back.shape[0] % experts.shape[1] == 0 else 1|experts.shape[1] if back.shape[0] % experts.shape[1] == 0 else 1, -1}, 8)
out = back.sum({1|1|1|0|2}{|, keepdim=True}){.to(x2.dtype)|}
return out, ends,{| ordered,| perm,| inverse,| back,| rows,| counts,}
""",
    "activation": """
wide = x{|.float()}
{made = 0.5 * wide * (1 + torch.tanh(0.7978845608 * (wide + 0.044715 * wide.pow(3))))|made = wide * 0.5 * (1.0 + torch.erf(wide / 1.4142135623730951))|made = wide * torch.sigmoid(1.702 * wide)|made = wide * torch.sigmoid(wide)|made = wide / (1 + torch.exp(-wide))|made = F.gelu(wide, approximate="{tanh|none}")|made = F.silu(wide) * y|made = torch.relu(wide) ** 2|made = F.softplus(wide).tanh() * wide|made = torch.tanh(wide / 3.0) * 3.0|made = wide.clamp(max=2.0) * torch.sigmoid(wide.clamp(max=2.0) * 1.702)}
{made = made * y|made = made * made|made = y + made|made = (made * w).sum({-1|0|1}, keepdim={True|False})|made = made / made.norm(dim=-1, keepdim=True).clamp(min=1e-6)|made = made - made.mean({-1|1}, keepdim=True)|made = F.layer_norm(made, ({8,|6, 8,})) }
{made = made.to(x.dtype)||made = made @ a.to(made.dtype) if made.shape[-1] == 8 else made|made = made.softmax(-1)|made = torch.cat([made, made], -1)}
return made,{| wide,| made + 1,}
""",
    "cache": """
place = {torch.arange(n, n + 2)|torch.tensor([n])|torch.tensor([-1, 0])|torch.tensor([3, 1])|torch.arange(2) + m}
new = {q[:, :, : place.shape[0]]|q[:, :, place]|q[:, :, : place.shape[0]] * 2|q[:, :, -place.shape[0] :].flip(2)}
{k.index_copy_(2, place, new)|k[:, :, place] = new|k[:, :, place] += new|k[:, :, n : n + place.shape[0]] = new|k.index_add_(2, place, new)|k[:, :, place] = k[:, :, place] * 2 + new|k.index_put_((None, None, place), new)|k.copy_(torch.cat([k[:, :, place.shape[0] :], new], 2))}
{m.add_(1)||m.fill_(2)|k.neg_()|k[:, :, :1].zero_()}
seen = {torch.arange(6)[None] <= place[-1:] + m|torch.arange(6)[None] < n + 1|torch.ones(1, 6, dtype=torch.bool)|(k[0, 0, :, 0] > 0)[None]}
{made = F.scaled_dot_product_attention(q, k, k, attn_mask=seen[None, None])|made = F.scaled_dot_product_attention(q, k.clone(), k, attn_mask=seen[None, None].expand(2, 1, 6, 6))|made = q @ k.transpose(2, 3)|made = k[:, :, : n + 1].sum(2)}
{k[:, :, place] = new * 2||k.mul_(0.5)|k[:, :, n] = made.flatten()[:8]}
return made,{| k[:, :, :2],| k,| m,| m + 1,| new,| seen,}
""",
}  # fmt: skip


def choose(text, pick, often):
    """The text with one alternative of each choice; the first ones more ``often`` than others."""
    while "{" in text:
        end = text.index("}")
        start = text.rindex("{", 0, end)
        parts = text[start + 1 : end].split("|")
        made = parts[0] if pick.random() < often else pick.choice(parts)
        text = text[:start] + made + text[end + 1 :]
    return text


def numbers(shape, seed, dtype):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


class Program:
    def __init__(self, seed):
        pick = random.Random(seed)
        self.kind = pick.choice(list(TEMPLATES))
        text = choose(TEMPLATES[self.kind], pick, pick.choice((0.9, 0.75, 0.5)))
        body = "\n".join(f"    {line}" for line in text.strip().split("\n") if line.strip())
        names = "x y w v a q k t f l b x2 g h m n e"
        low = pick.choice(("-INF", "-INF", "torch.finfo(q.dtype).min", "-1e4"))
        self.source = f"def program({', '.join(names.split())}):\n    LOW = {low}\n{body}\n"
        name = f"<lookalike {seed}>"
        linecache.cache[name] = len(self.source), None, self.source.splitlines(True), name
        space = {"torch": torch, "F": F, "INF": INF}
        exec(compile(self.source, name, "exec"), space)
        self.function = self.eager = space["program"]
        if "torch.sort(ids" in self.source:  # which of equal ones is first is weir's to say: in their order
            space = {**space}
            exec(self.source.replace("torch.sort(ids", "torch.sort(stable=True, input=ids"), space)
            self.eager = space["program"]
        self.dtype = pick.choice((torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64))
        self.square = pick.random() < 0.3  # sizes that are equal hide what dim is meant
        self.n, self.e, self.seed = pick.choice((1, 2, 3, 4)), pick.choice((1e-5, 0.25, 1.5)), seed
        self.dynamic = pick.choice((False, False, None, True))
        self.turned = pick.random() < 0.2

    def arguments(self, call):
        d, at = self.dtype, 100 * self.seed + 20 * call
        rows = 8 if self.square else 6
        x, y = (numbers((rows, 8), at + i, d) for i in range(2))
        w, v = numbers((8,), at + 2, d), numbers((rows,), at + 3, d)
        a = numbers((8, 8), at + 4, d)
        q, k = (numbers((2, 2, 6, 8), at + 5 + i, d) for i in range(2))
        if self.turned:
            x, q = x.t().contiguous().t(), q.transpose(1, 2).contiguous().transpose(1, 2)
        t, f = torch.arange(6.0) + call, 1.0 / (100.0 ** (torch.arange(4.0) / 4))
        l, b = numbers((7, 8), at + 7, d), numbers((8,), at + 8, torch.float32)
        x2 = numbers((7, 8), at + 9, d)
        g = torch.rand((6, 6), generator=torch.Generator().manual_seed(at + 10)) < 0.6
        h = torch.rand((2, 1, 6, 6), generator=torch.Generator().manual_seed(at + 11)) < 0.5
        return [x, y, w, v, a, q, k, t, f, l, b, x2, g, h, torch.tensor(call % 3), self.n, self.e]

    def reads_nothing(self):
        """Whether memory that nobody has written is part of the results."""
        if "empty" not in self.source:
            return False
        torch.use_deterministic_algorithms(True)  # then it is NaN, or the largest integer
        try:
            given = self.arguments(0)
            made = leaves(self.function(*given), given)
        finally:
            torch.use_deterministic_algorithms(False)
        return any(t.isnan().any() if t.is_floating_point() else (t == torch.iinfo(torch.int64).max).any() for t in made)

    def text(self):
        return f"{self.kind} {self.dtype} n={self.n} e={self.e} dynamic={self.dynamic} square={self.square}\n{self.source}"


TOLERANCE = {torch.float16: 8e-3, torch.bfloat16: 6e-2, torch.float32: 2e-4, torch.float64: 1e-8}


def leaves(results, arguments):
    return [x for x in (*results, *arguments) if isinstance(x, torch.Tensor)]


def compare(got, want, at):
    wrong = []
    if len(got) != len(want):
        return [f"{len(got)} tensors instead of {len(want)}"]
    for number, (x, y) in enumerate(zip(got, want)):
        if x.dtype != y.dtype or x.shape != y.shape:
            wrong.append(f"tensor {number}: {x.dtype} {tuple(x.shape)} instead of {y.dtype} {tuple(y.shape)}")
        elif not y.is_floating_point() and not y.is_complex():
            if not torch.equal(x, y):
                wrong.append(f"tensor {number}: {x.tolist()} instead of {y.tolist()}")
        else:
            x, y = x.double(), y.double()
            known = y.abs()[y.isfinite()]
            near = at * max(1.0, known.max().item() if known.numel() else 1.0)
            if not torch.allclose(x, y, rtol=at, atol=near, equal_nan=True):
                wrong.append(f"tensor {number}: {x.tolist()} instead of {y.tolist()}")
    return wrong


def run(program, backend, calls=3):
    """(calls compared, sentences)."""
    torch._dynamo.reset()
    compiled = torch.compile(program.function, backend=backend, dynamic=program.dynamic)
    at, done = TOLERANCE[program.dtype], 0
    if program.kind in ("turn", "pairs"):  # angles are f32
        at = max(at, TOLERANCE[torch.float32])
    for word, kind in (("float", torch.float32), ("bfloat16", torch.bfloat16)):
        at = max(at, TOLERANCE[kind]) if word in program.source else at
    for call in range(calls):
        given, own = program.arguments(call), program.arguments(call)
        try:
            with torch.no_grad():
                if program.reads_nothing():
                    return done, []
                want = leaves(program.eager(*given), given)
        except Exception:
            return done, []  # eager PyTorch refuses it
        with torch.no_grad():
            got = leaves(compiled(*own), own)
        wrong = compare(got, want, at)
        if wrong:
            return done, [f"call {call}: {text[:500]}" for text in wrong[:3]]
        done += 1
    return done, []


def try_seed(seed):
    """(calls compared, sentences about what is wrong)."""
    program, pick = Program(seed), random.Random(-seed)
    try:
        done, wrong = run(program, programs.backend_for(pick))
    except Exception as error:
        done, wrong = 0, [f"{type(error).__name__}: {str(error)[:600]}"]
    if not wrong:
        return done, []
    try:
        program.function = program.eager
        if run(program, "aot_eager")[1]:
            return 0, []
    except Exception:
        return 0, []  # PyTorch refuses it without weir, too
    return done, [f"seed {seed}", *wrong, program.text()]


if __name__ == "__main__":
    raise SystemExit(programs.try_seeds("programs that look like patterns, against eager PyTorch", "calls of lookalikes", try_seed))
