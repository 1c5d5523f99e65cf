"""Attention, rotary positions, experts, quantised products and images, against PyTorch."""
import pytest
import torch
from torch.nn import functional as F

from aclnn import call, rows
from samples import FLOAT, close, empty_like, make

COVERED = set()


def to_layout(x, layout):
    """[b, n, s, d] in a layout."""
    if layout == "BNSD":
        return x.contiguous()
    if layout == "BSND":
        return x.permute(0, 2, 1, 3).contiguous()
    if layout == "BSH":
        return x.permute(0, 2, 1, 3).flatten(2)
    return x.permute(2, 0, 1, 3).flatten(2)  # SBH


def attention(q, k, v, scale, masked=None, bias=None, scaled=False):
    """In f64; true in masked takes no part; a row of nothing is 0."""
    g = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(g, 1), v.repeat_interleave(g, 1)
    s = q @ k.transpose(-1, -2)
    if bias is not None:
        s = (s + bias) * scale if scaled else s * scale + bias
    else:
        s = s * scale
    if masked is not None:
        s = s.masked_fill(masked, float("-inf"))
    most = s.amax(-1, keepdim=True)
    most = torch.where(most == float("-inf"), torch.zeros_like(most), most)
    e = (s - most).exp()
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, torch.ones_like(total), total) @ v, most, total


@pytest.mark.parametrize("layout", ("BNSD", "BSND", "BSH", "SBH"))
@pytest.mark.parametrize("kv_heads", (4, 2))
def test_flash_attention_and_its_gradient(layout, kv_heads):
    b, n, sq, sk, d = 2, 4, 5, 7, 8
    for dtype in FLOAT:
        q, k, v = make((b, n, sq, d), dtype), make((b, kv_heads, sk, d), dtype), make((b, kv_heads, sk, d), dtype)
        mask = torch.triu(torch.ones(sq, sk, dtype=torch.bool), 2)
        bias = make((b, n, sq, sk), dtype)
        for kind in ("plain", "mask", "causal", "bias"):
            m = mask if kind == "mask" else torch.ones(2048, 2048, dtype=torch.bool).triu(1) if kind == "causal" else None
            sparse = 3 if kind == "causal" else 0
            rule = mask if kind == "mask" else torch.ones(sq, sk, dtype=torch.bool).triu(1 + sk - sq) if kind == "causal" else None
            p = bias if kind == "bias" else None
            args = [t.double().detach().clone().requires_grad_() for t in (q, k, v)]
            want, most, total = attention(*args, 0.3, rule, p.double() if p is not None else None, True)
            g = make((b, n, sq, d), dtype)
            want.backward(g.double())
            out = empty_like(to_layout(q, layout))
            stats = [torch.empty(b, n, sq, 8) for _ in range(2)]
            call("FlashAttentionScore", to_layout(q, layout), to_layout(k, layout), to_layout(v, layout), p,
                 None, None, m, None, 0.3, 1.0, 2147483647, 2147483647, n, layout, 0, sparse, *stats,
                 None, out)
            close(out, to_layout(want.detach(), layout), 4)
            close(stats[0][..., :1], most.detach(), 20 if dtype != torch.float64 else 1)
            close(stats[1][..., 3:4], total.detach(), 20 if dtype != torch.float64 else 1)
            dq, dk, dv = (empty_like(to_layout(t, layout)) for t in (q, k, v))
            call("FlashAttentionScoreGrad", to_layout(q, layout), to_layout(k, layout), to_layout(v, layout),
                 to_layout(g, layout), p, None, None, m, *stats, None, out, None, 0.3, 1.0, 2147483647,
                 2147483647, n, layout, 0, sparse, dq, dk, dv, None)
            for got, x in zip((dq, dk, dv), args):
                close(got, to_layout(x.grad, layout), 12)
    COVERED.update({"FlashAttentionScore", "FlashAttentionScoreGrad"})


def test_packed_attention():
    n, d = 2, 8
    q_ends, k_ends = [3, 3, 8], [4, 6, 12]
    q, k, v = make((8, n, d), torch.float32), make((12, n, d), torch.float32), make((12, n, d), torch.float32)
    want = torch.zeros(8, n, d, dtype=torch.float64)
    qb = kb = 0
    for qe, ke in zip(q_ends, k_ends):
        if qe > qb:
            part = [t.double().transpose(0, 1).unsqueeze(0) for t in (q[qb:qe], k[kb:ke], v[kb:ke])]
            want[qb:qe] = attention(*part, 0.3)[0][0].transpose(0, 1)
        qb, kb = qe, ke
    out = empty_like(q)
    call("FlashAttentionVarLenScore", q, k, v, None, None, None, None, None, q_ends, k_ends, 0.3, 1.0,
         2147483647, 2147483647, n, "TND", 0, 0, torch.empty(8, n, 8), torch.empty(8, n, 8), None, out)
    close(out, want, 2)
    args = fused_args("FusedInferAttentionScoreV3", q, [k], [v], out, heads=n, layout="TND",
                      q_lengths=q_ends, kv_lengths=k_ends)
    out.fill_(0)
    call("FusedInferAttentionScoreV3", *args)
    close(out, want, 2)
    COVERED.add("FlashAttentionVarLenScore")


def fused_args(name, q, k, v, out, **named):
    """Operands by name; what is not named is absent or 0."""
    values = {"query": q, "key": k, "value": v, "out": out, "scale": 0.3, "layout": "BNSD",
              "pre_tokens": 2147483647, "next_tokens": 2147483647, **named}
    assert set(named) <= {o for _, o in rows()[name][1]}
    if ("F", "scale") not in rows()[name][1]:
        del values["scale"]
    return [values.get(operand, None if letter[-1] == "Q" or letter in "TNLX" else
                       False if letter == "B" else 0) for letter, operand in rows()[name][1]]


@pytest.mark.parametrize("layout", ("BNSD", "BSND", "BSH"))
def test_inference_attention(layout):
    b, n, sq, sk, d = 2, 4, 5, 7, 8
    for dtype in FLOAT:
        for kv_heads in (4, 2):
            q, k, v = make((b, n, sq, d), dtype), make((b, kv_heads, sk, d), dtype), make((b, kv_heads, sk, d), dtype)
            doubles = [t.double() for t in (q, k, v)]
            laid = [to_layout(t, layout) for t in (q, k, v)]
            lengths = [5, 7]
            short = (torch.arange(sk) >= torch.tensor(lengths).view(b, 1, 1, 1))
            mask = torch.triu(torch.ones(sq, sk, dtype=torch.bool), 2)
            bias = make((b, n, sq, sk), dtype)
            for named, rule, p in (({}, None, None), ({"kv_lengths": lengths}, short, None),
                                   ({"atten_mask": mask}, mask, None), ({"pse_shift": bias}, None, bias.double())):
                want, most, total = attention(*doubles, 0.3, rule, p)
                for name in ("FusedInferAttentionScoreV2", "FusedInferAttentionScoreV3",
                             "FusedInferAttentionScoreV4", "FusedInferAttentionScoreV5",
                             "PromptFlashAttentionV3"):
                    out = empty_like(laid[0])
                    if name == "PromptFlashAttentionV3":
                        args = fused_args(name, *laid, out, heads=n, kv_heads=kv_heads, layout=layout, **named)
                    else:
                        lse = torch.empty(b, n, sq, 1)
                        args = fused_args(name, laid[0], [laid[1]], [laid[2]], out, heads=n, kv_heads=kv_heads,
                                          layout=layout, lse_flag=True, lse=lse, **named)
                    call(name, *args)
                    close(out, to_layout(want, layout), 4)
                    if name != "PromptFlashAttentionV3":
                        close(lse, most + total.log(), 20 if dtype != torch.float64 else 1)
                    COVERED.add(name)
            one = make((b, n, 1, d), dtype)
            want = attention(one.double(), *doubles[1:], 0.3, short)[0]
            out = empty_like(to_layout(one, layout))
            call("IncreFlashAttentionV4", *fused_args("IncreFlashAttentionV4", to_layout(one, layout),
                 [laid[1]], [laid[2]], out, heads=n, kv_heads=kv_heads, layout=layout, kv_lengths=lengths))
            close(out, to_layout(want, layout), 4)
            COVERED.add("IncreFlashAttentionV4")


def test_paged_attention():
    b, n, kv, d, block = 2, 4, 2, 8, 4
    lengths = [6, 9]
    blocks = make((8, block, kv * d), torch.float32), make((8, block, kv * d), torch.float32)
    table = torch.tensor([[5, 2, -1], [7, 0, 3]], dtype=torch.int32)
    q = make((b, n, 1, d), torch.float32)
    rows_of = [t[table.long().clamp_min(0)].reshape(b, 3 * block, kv, d).transpose(1, 2).double() for t in blocks]
    short = (torch.arange(3 * block) >= torch.tensor(lengths).view(b, 1, 1, 1))
    want = attention(q.double(), *rows_of, 0.3, short)[0]
    for layout in ("BSH", "BNSD"):
        for name in ("FusedInferAttentionScoreV3", "IncreFlashAttentionV4"):
            out = empty_like(to_layout(q, layout))
            call(name, *fused_args(name, to_layout(q, layout), [blocks[0]], [blocks[1]], out, heads=n,
                                   kv_heads=kv, layout=layout, kv_lengths=lengths, block_table=table,
                                   block_size=block))
            close(out, to_layout(want, layout), 2)


def turned(x, mode):
    if mode == 0:
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


@pytest.mark.parametrize("mode", (0, 1))
def test_rotary(mode):
    for dtype in FLOAT:
        x, cos, sin = make((2, 5, 3, 8), dtype), make((1, 5, 1, 8), dtype), make((1, 5, 1, 8), dtype)
        args = [t.double().detach().clone().requires_grad_() for t in (x, cos, sin)]
        want = args[0] * args[1] + turned(args[0], mode) * args[2]
        out = empty_like(x)
        call("RotaryPositionEmbedding", x, cos, sin, mode, out)
        close(out, want.detach(), 4)
        g = make((2, 5, 3, 8), dtype)
        want.backward(g.double())
        got = [empty_like(t) for t in (x, cos, sin)]
        call("RotaryPositionEmbeddingGrad", g, cos, sin, x, mode, *got)
        for a, b in zip(got, args):
            close(a, b.grad, 8)
        if mode == 1:
            call("InterleaveRope", x, cos, sin, out)
            close(out, want.detach(), 4)
        q, k = x.clone(), x.flip(2).contiguous()
        other = k.double().clone()
        if mode == 0:
            call("ApplyRotaryPosEmb", q, k, cos, sin, 1)
        else:
            call("ApplyRotaryPosEmbV2", q, k, cos, sin, 1, "interleave")
        close(q, want.detach(), 4)
        close(k, other * cos.double() + turned(other, mode) * sin.double(), 4)
    COVERED.update({"RotaryPositionEmbedding", "RotaryPositionEmbeddingGrad", "InterleaveRope",
                    "ApplyRotaryPosEmb", "ApplyRotaryPosEmbV2"})


def test_gating():
    n, e, k = 6, 8, 3
    x = make((n, e), torch.float32)
    p = F.softmax(x, -1)
    values, at = p.topk(k, -1)
    y, idx, row = torch.empty(n, k), torch.empty(n, k, dtype=torch.int32), torch.empty(n, k, dtype=torch.int32)
    call("MoeGatingTopKSoftmax", x, None, k, y, idx, row)
    close(y, values, 2)
    assert torch.equal(idx.long(), at)
    assert torch.equal(row.long(), torch.arange(n * k).view(k, n).t())
    whole = torch.empty(n, e)
    call("MoeGatingTopKSoftmaxV2", x, None, k, 0, True, y, idx, whole)
    close(y, values, 2)
    close(whole, p, 2)
    call("MoeGatingTopKSoftmaxV2", x, None, k, 1, False, y, idx, None)
    close(y, F.softmax(x.topk(k, -1).values, -1), 2)
    bias = make((e,), torch.float32)
    s = torch.sigmoid(x)
    chosen = (s + bias).view(n, 4, 2)
    best = chosen.topk(2, -1).values.sum(-1).topk(2, -1).indices
    hide = torch.ones(n, 4, dtype=torch.bool).scatter(1, best, False)
    want_at = chosen.masked_fill(hide.unsqueeze(-1), float("-inf")).flatten(1).topk(k, -1).indices
    want = s.gather(1, want_at)
    want = want / (want.sum(-1, keepdim=True) + 1e-20) * 2.5
    call("MoeGatingTopK", x, bias, k, 2, 4, 1, 0, 1, True, 2.5, 1e-20, y, idx, whole)
    close(y, want, 2)
    assert torch.equal(idx.long(), want_at)
    close(whole, s, 2)
    COVERED.update({"MoeGatingTopKSoftmax", "MoeGatingTopKSoftmaxV2", "MoeGatingTopK"})


def test_routing_there_and_back():
    n, k, e, h = 6, 2, 4, 5
    for dtype in FLOAT:
        x = make((n, h), dtype)
        experts = torch.stack([torch.randperm(e)[:k] for _ in range(n)]).int()
        flat = experts.flatten().long()
        order = torch.argsort(flat, stable=True)
        row_idx = torch.arange(n * k).view(k, n).t().contiguous().int()
        ex, er, ee = torch.empty(n * k, h, dtype=dtype), torch.empty(n * k, dtype=torch.int32), torch.empty(n * k, dtype=torch.int32)
        call("MoeInitRouting", x, row_idx, experts, n, ex, er, ee)
        source = row_idx.flatten().long()[order]
        close(ex, x[source % n])
        assert torch.equal(er.long()[source], torch.arange(n * k))
        assert torch.equal(ee.long(), flat[order])
        counts = torch.empty(e, dtype=torch.int32)
        call("MoeComputeExpertTokens", ee, e, counts)
        assert torch.equal(counts.long(), torch.bincount(flat, minlength=e).cumsum(0))
        scales, bias = make((n, k), dtype), make((e, h), dtype)
        skip = make((n, h), dtype)
        out = torch.empty(n, h, dtype=dtype)
        want = skip.double() * 2 + ((x.double().unsqueeze(1) + bias.double()[experts.long()])
                                    * scales.double().unsqueeze(2)).sum(1)
        call("MoeFinalizeRouting", ex, skip, skip, bias, scales, er, experts, out)
        close(out, want, 4)
        call("MoeFinalizeRoutingV2", ex, er, skip, skip, bias, scales, experts, 0, out)
        close(out, want, 4)
        for flag, wanted in ((1, torch.bincount(flat, minlength=e).cumsum(0)), (2, torch.bincount(flat, minlength=e))):
            call("MoeInitRoutingV2", x, experts, 0, 0, e, 0, flag, False, ex, er, counts, None)
            close(ex, x[order // k])
            assert torch.equal(er.long()[order], torch.arange(n * k))
            assert torch.equal(counts.long(), wanted)
        call("MoeFinalizeRoutingV2", ex, er, skip, skip, bias, scales, experts, 2, out)
        close(out, want, 4)
        permuted, places = torch.empty(n * k, h, dtype=dtype), torch.empty(n * k, dtype=torch.int32)
        call("MoeTokenPermute", x, experts, n * k, False, permuted, places)
        close(permuted, x[order // k])
        assert torch.equal(places.long(), torch.argsort(order))
        probs = make((n, k), dtype)
        call("MoeTokenUnpermute", permuted, places, probs, False, None, out)
        close(out, x.double() * probs.double().sum(1, keepdim=True), 4)
        g = make((n * k, h), dtype)
        call("MoeTokenPermuteGrad", g, places, k, False, out)
        close(out, torch.zeros(n, h, dtype=torch.float64).index_add(0, order // k, g.double()), 4)
    COVERED.update({"MoeInitRouting", "MoeComputeExpertTokens", "MoeFinalizeRouting", "MoeFinalizeRoutingV2",
                    "MoeInitRoutingV2", "MoeTokenPermute", "MoeTokenUnpermute", "MoeTokenPermuteGrad"})


def test_grouped_products():
    counts = [3, 0, 4, 2]
    ends = torch.tensor(counts).cumsum(0)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x, w, b = make((9, 6), dtype), make((4, 6, 5), dtype), make((4, 5), dtype)
        want = torch.cat([p.double() @ w[i].double() + b[i].double() for i, p in enumerate(x.split(counts))])
        out = torch.empty(9, 5, dtype=dtype)
        for name in ("GroupedMatmulV4", "GroupedMatmulV5"):
            for kind, values in ((0, ends), (1, torch.tensor(counts))):
                args = fused_args(name, None, None, None, [out], x=[x], weight=[w], bias=[b],
                                  group_list=values, split_item=3, group_list_type=kind, group_type=0)
                call(name, *[a if o != "out" else [out] for a, (_, o) in zip(args, rows()[name][1])])
                close(out, want, 4)
            COVERED.add(name)
        outs = [torch.empty(2, 5, dtype=dtype), torch.empty(3, 4, dtype=dtype)]
        xs, ws = [make((2, 6), dtype), make((3, 7), dtype)], [make((6, 5), dtype), make((7, 4), dtype)]
        call("GroupedMatmul", xs, ws, None, None, None, None, None, None, 0, outs)
        for o, a, m in zip(outs, xs, ws):
            close(o, a.double() @ m.double(), 4)
        call("GroupedMatmul", [x], [w[i] for i in range(4)], None, None, None, None, None, ends.tolist(), 3, [out])
        close(out, want - torch.cat([b[i].double().expand(c, 5) for i, c in enumerate(counts)]), 4)
    COVERED.add("GroupedMatmul")


def test_quantised():
    for dtype in FLOAT:
        x = make((5, 8), dtype)
        y, s = torch.empty(5, 8, dtype=torch.int8), torch.empty(5)
        call("DynamicQuant", x, None, y, s)
        want = x.double().abs().amax(-1) / 127
        close(s, want, 10)
        assert (y.double() * s.double().unsqueeze(1) - x.double()).abs().max() <= s.max() * 0.6
        scale, offset = make((8,), torch.float32, 5, 20), make((8,), torch.float32)
        wide = x.float() if dtype != torch.float64 else x
        q = (wide * scale + offset).round().clamp(-128, 127).to(torch.int8)
        call("AscendQuant", x, scale, offset, False, "round", 2, y)
        assert (y.int() - q.int()).abs().max() <= 1 and (y == q).double().mean() > 0.9
        call("AscendQuantV3", x, scale, offset, False, "round", 2, -1, y)
        assert (y.int() - q.int()).abs().max() <= 1
        q = ((wide / scale).round() + 3).clamp(-128, 127).to(torch.int8)
        call("Quantize", x, scale, torch.full((8,), 3, dtype=torch.int32), torch.int8, 1, y)
        assert (y.int() - q.int()).abs().max() <= 1
        back = torch.empty(5, 8, dtype=dtype)
        call("AscendAntiQuant", y, scale, offset, 1, False, back)
        close(back, (y.double() + offset.double()) * scale.double(), 4 if dtype != torch.float64 else 1000)
    a, b = make((6, 16), torch.int8, -100, 100), make((16, 5), torch.int8, -100, 100)
    scale, token = make((5,), torch.float32, 0.001, 0.01), make((6,), torch.float32, 0.5, 1)
    bias = make((5,), torch.int32, -100, 100)
    exact = (a.long() @ b.long() + bias).double() * scale.double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        out = torch.empty(6, 5, dtype=dtype)
        call("QuantMatmulV3", a, b, scale, None, bias, False, False, out)
        close(out, exact, 2)
        call("QuantMatmulV4", a, b.t().contiguous(), scale, None, token, bias, False, True, out)
        close(out, exact * token.double().unsqueeze(1), 2)
        call("QuantMatmulV5", a, b, token, scale, None, None, None, None, bias, False, False, 0, out)
        close(out, exact * token.double().unsqueeze(1), 2)
    packed = torch.empty(5, dtype=torch.int64)
    call("TransQuantParamV2", scale, None, packed)
    out = torch.empty(6, 5, dtype=torch.float16)
    call("QuantMatmulV3", a, b, packed, None, bias, False, False, out)
    close(out, exact, 2)
    for dtype in FLOAT:
        x = make((4, 64), dtype)
        w = make((64, 6), torch.int8, -100, 100)
        s, o = make((2, 6), dtype, 0.01, 0.02), make((2, 6), dtype)
        out = torch.empty(4, 6, dtype=dtype)
        full = (w.double() + o.double().repeat_interleave(32, 0)) * s.double().repeat_interleave(32, 0)
        call("WeightQuantBatchMatmulV2", x, w, s, o, None, None, None, 32, out)
        close(out, x.double() @ full, 8)
        call("WeightQuantBatchMatmulV2", x, w, s[0], None, None, None, None, 0, out)
        close(out, x.double() @ (w.double() * s[0].double()), 8)
    COVERED.update({"DynamicQuant", "AscendQuant", "AscendQuantV3", "Quantize", "AscendAntiQuant",
                    "QuantMatmulV3", "QuantMatmulV4", "QuantMatmulV5", "TransQuantParamV2",
                    "WeightQuantBatchMatmulV2"})


@pytest.mark.parametrize("transposed", (False, True))
@pytest.mark.parametrize("groups", (1, 2))
@pytest.mark.parametrize("one_dim", (False, True))
def test_convolution(transposed, groups, one_dim):
    for dtype in FLOAT:
        for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 1, 2), (2, 2, 1)):
            extra = 1 if transposed and stride > 1 else 0
            space = (9,) if one_dim else (7, 9)
            kernel = (3,) if one_dim else (3, 2)
            x = make((2, 4, *space), dtype)
            w = make((4, 6 // groups, *kernel) if transposed else (6, 4 // groups, *kernel), dtype)
            b = make((6,), dtype)
            n = len(space)
            fn = {(False, True): F.conv1d, (False, False): F.conv2d, (True, True): F.conv_transpose1d,
                  (True, False): F.conv_transpose2d}[transposed, one_dim]
            args = [t.double().detach().clone().requires_grad_() for t in (x, w, b)]
            named = {"output_padding": extra} if transposed else {}
            want = fn(*args, stride=stride, padding=padding, dilation=dilation, groups=groups, **named)
            out = empty_like(want, dtype)
            ints = [(stride,) * n, (padding,) * n, (dilation,) * n]
            call("Convolution", x, w, b, *ints, transposed, (extra,) * n, groups, out, 1)
            close(out, want.detach(), 6)
            g = make(tuple(want.shape), dtype)
            want.backward(g.double())
            got = [empty_like(t) for t in (x, w, b)]
            call("ConvolutionBackward", g, x, w, (6,), *ints, transposed, (extra,) * n, groups,
                 (True, True, True), 1, *got)
            for a, t in zip(got, args):
                close(a, t.grad, 16)
    COVERED.update({"Convolution", "ConvolutionBackward"})


def test_pools_and_sizes():
    for dtype in FLOAT:
        x = make((2, 3, 8, 9), dtype)
        xd = x.double()
        for kernel, stride, padding, ceil in (((2, 2), (2, 2), (0, 0), False), ((3, 2), (2, 1), (1, 1), False),
                                              ((3, 3), (2, 2), (1, 1), True)):
            for count in (False, True):
                for divisor in (0, 5):
                    want = F.avg_pool2d(xd, kernel, stride, padding, ceil, count, divisor or None)
                    out = empty_like(want, dtype)
                    call("AvgPool2d", x, kernel, stride, padding, ceil, count, divisor, 1, out)
                    close(out, want, 2)
            leaf = xd.clone().requires_grad_()
            want, at = F.max_pool2d(leaf, kernel, stride, padding, 1, ceil, True)
            out, places = empty_like(want, dtype), empty_like(want, torch.int32)
            call("MaxPool2dWithIndices", x, kernel, stride, padding, (1, 1), ceil, out, places)
            close(out, want.detach())
            assert torch.equal(places.long(), at)
            call("MaxPool", x, kernel, stride, 0, padding, (1, 1), int(ceil), out)
            close(out, want.detach())
            g = make(tuple(want.shape), dtype)
            want.backward(g.double())
            dx = empty_like(x)
            call("MaxPool2dWithIndicesBackward", g, x, places, kernel, stride, padding, (1, 1), ceil, dx)
            close(dx, leaf.grad, 2)
        leaf = xd.clone().requires_grad_()
        want = F.adaptive_avg_pool2d(leaf, (3, 4))
        out = empty_like(want, dtype)
        call("AdaptiveAvgPool2d", x, (3, 4), out)
        close(out, want.detach(), 4 if dtype != torch.float64 else 1000)
        g = make(tuple(want.shape), dtype)
        want.backward(g.double())
        dx = empty_like(x)
        call("AdaptiveAvgPool2dBackward", g, x, dx)
        close(dx, leaf.grad, 4 if dtype != torch.float64 else 1000)
        want = F.unfold(xd, (3, 2), (2, 1), (1, 1), (1, 2))
        out = empty_like(want, dtype)
        call("Im2col", x, (3, 2), (2, 1), (1, 1), (1, 2), out)
        close(out, want)
        want = F.interpolate(xd, (13, 5), mode="nearest")
        out = empty_like(want, dtype)
        call("UpsampleNearest2d", x, (13, 5), out)
        close(out, want)
        call("UpsampleNearest2dV2", x, (13, 5), -1.0, -1.0, out)
        close(out, want)
        want = F.interpolate(xd[:, :, 0], 20, mode="nearest")
        out = empty_like(want, dtype)
        call("UpsampleNearest1d", x[:, :, 0], (20,), out)
        close(out, want)
        for corners in (False, True):
            leaf = xd.clone().requires_grad_()
            want = F.interpolate(leaf, (13, 5), mode="bilinear", align_corners=corners)
            out = empty_like(want, dtype)
            call("UpsampleBilinear2d", x, (13, 5), corners, 0.0, 0.0, out)
            close(out, want.detach(), 8 if dtype != torch.float64 else 10000)
            g = make(tuple(want.shape), dtype)
            want.backward(g.double())
            for name in ("UpsampleBilinear2dBackward", "UpsampleBilinear2dBackwardV2"):
                call(name, g, (13, 5), (2, 3, 8, 9), corners, 0.0, 0.0, dx)
                close(dx, leaf.grad, 8 if dtype != torch.float64 else 10000)
    COVERED.update({"AvgPool2d", "MaxPool2dWithIndices", "MaxPool", "MaxPool2dWithIndicesBackward",
                    "AdaptiveAvgPool2d", "AdaptiveAvgPool2dBackward", "Im2col", "UpsampleNearest2d",
                    "UpsampleNearest2dV2", "UpsampleNearest1d", "UpsampleBilinear2d",
                    "UpsampleBilinear2dBackward", "UpsampleBilinear2dBackwardV2"})
