"""LSTM and GRU against PyTorch's: layers, directions, biases, layouts, gradients."""
import pytest
import torch
from torch import nn

from aclnn import Error, call
from samples import close

COVERED = {"LSTM", "LstmBackward", "GRU", "GRUBackward", "ThnnFusedLstmCell", "ThnnFusedLstmCellBackward"}
STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6


def network(kind, layers, both, bias, batch_first, dtype=torch.float32):
    net = kind(WIDTH, HIDDEN, layers, bias=bias, batch_first=batch_first, bidirectional=both).to(dtype)
    shape = (BATCH, STEPS, WIDTH) if batch_first else (STEPS, BATCH, WIDTH)
    x = torch.randn(shape, dtype=dtype)
    hx = [torch.randn(layers * (1 + both), BATCH, HIDDEN, dtype=dtype) for _ in range(2)]
    return net, x, hx


def some(count, *shape, dtype=torch.float32):
    return [torch.full(shape, 77.0, dtype=dtype) for _ in range(count)]


@pytest.mark.parametrize("kind", (nn.LSTM, nn.GRU))
@pytest.mark.parametrize("layers,both,bias,batch_first", ((1, False, True, False), (2, True, True, True),
                                                          (3, False, False, False), (1, True, False, True)))
def test_forward_and_backward(kind, layers, both, bias, batch_first):
    net, x, hx = network(kind, layers, both, bias, batch_first)
    lstm, sides = kind is nn.LSTM, layers * (1 + both)
    x.requires_grad_()
    for h in hx:
        h.requires_grad_()
    y, last = net(x, tuple(hx) if lstm else hx[0])
    last = last if lstm else (last,)
    grads = [torch.randn_like(t) for t in (y, *last)]
    torch.autograd.backward((y, *last), grads)
    params = [p.detach() for p in net.parameters()]
    plain, states = x.detach(), [h.detach() for h in hx[:len(last)]]
    out = [torch.full_like(t, 77) for t in (y, *last)]
    kept = [some(sides, STEPS, BATCH, HIDDEN) for _ in range(7 if lstm else 5)]
    call("LSTM" if lstm else "GRU", plain, params, states if lstm else states[0], None, bias, layers, 0.0, True,
         both, batch_first, *out, *kept)
    for got, want in zip(out, (y, *last)):
        close(got, want.detach(), 16)

    results = [torch.full_like(t, 77) for t in (plain, *states)]
    of_params = [torch.full_like(p, 77) for p in params]
    if lstm:
        call("LstmBackward", plain, states, params, *grads, *kept, None, bias, layers, 0.0, True, both, batch_first,
             None, *results, of_params)
    else:
        call("GRUBackward", plain, params, states[0], *grads, *kept, None, bias, layers, both, batch_first, *results,
             of_params)
    for got, want in zip((*results, *of_params), (x, *hx[:len(last)], *net.parameters())):
        close(got, want.grad, 64)


def test_nothing_is_kept_without_training():
    net, x, hx = network(nn.LSTM, 1, False, True, False, torch.float16)
    out = [torch.zeros(STEPS, BATCH, HIDDEN, dtype=torch.float16), *(torch.zeros_like(hx[0]) for _ in range(2))]
    params = [p.detach() for p in net.parameters()]
    call("LSTM", x, params, hx, None, True, 1, 0.0, False, False, False, *out, [], [], [], [],
         some(1, dtype=torch.float16), some(1, dtype=torch.float16), [])
    with torch.no_grad():
        want, _ = net.float()(x.float(), tuple(h.float() for h in hx))
    close(out[0], want.half(), 4)


def test_a_gradient_that_is_not_given_counts_as_zero():
    net, x, hx = network(nn.GRU, 1, False, True, False)
    x.requires_grad_()
    y, _ = net(x, hx[0])
    g = torch.randn_like(y)
    y.backward(g)
    params = [p.detach() for p in net.parameters()]
    out = [torch.zeros_like(y), torch.zeros_like(hx[0])]
    kept = [some(1, STEPS, BATCH, HIDDEN) for _ in range(5)]
    call("GRU", x.detach(), params, hx[0], None, True, 1, 0.0, True, False, False, *out, *kept)
    dx, dh = torch.zeros_like(x), torch.zeros_like(hx[0])
    call("GRUBackward", x.detach(), params, hx[0], g, None, *kept, None, True, 1, False, False, dx, dh,
         [torch.zeros_like(p) for p in params])
    close(dx, x.grad, 64)


@pytest.mark.parametrize("bias", (True, False))
def test_a_cell(bias):
    gates = [torch.randn(BATCH, 4 * HIDDEN) for _ in range(2)]
    biases = [torch.randn(4 * HIDDEN) if bias else None for _ in range(2)]
    cx = torch.randn(BATCH, HIDDEN, requires_grad=True)
    total = (sum(gates) + (sum(biases) if bias else 0)).requires_grad_()
    i, f, j, o = total.chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * j.tanh()
    hy = o.sigmoid() * cy.tanh()
    got = [torch.zeros_like(cx.detach()) for _ in range(2)] + [torch.zeros(BATCH, 4 * HIDDEN)]
    call("ThnnFusedLstmCell", *gates, cx.detach(), *biases, *got)
    close(got[0], hy.detach(), 8)
    close(got[1], cy.detach(), 8)
    grads = [torch.randn_like(cx.detach()) for _ in range(2)]
    torch.autograd.backward((hy, cy), grads)
    back = [torch.zeros(BATCH, 4 * HIDDEN), torch.zeros(BATCH, HIDDEN), torch.zeros(4 * HIDDEN)]
    call("ThnnFusedLstmCellBackward", *grads, cx.detach(), got[1], got[2], bias, *back)
    close(back[0], total.grad, 16)
    close(back[1], cx.grad, 16)
    if bias:
        close(back[2], total.grad.sum(0), 16)


def test_a_missing_operator_is_reported():
    net, x, hx = network(nn.LSTM, 2, False, True, False)
    params = [p.detach() for p in net.parameters()]
    out = [torch.zeros(STEPS, BATCH, HIDDEN), *(torch.zeros_like(hx[0]) for _ in range(2))]
    kept = [some(2, STEPS, BATCH, HIDDEN) for _ in range(7)]
    with pytest.raises(Error, match="aclnnLSTM: dropout between layers"):
        call("LSTM", x, params, hx, None, True, 2, 0.5, True, False, False, *out, *kept)
    with pytest.raises(Error, match="different lengths"):
        call("LSTM", x, params, hx, torch.tensor([3, 3, 2, 1, 1]), True, 2, 0.0, True, False, False, *out, *kept)
    with pytest.raises(Error, match="8 params for 1 layers"):
        call("LSTM", x, params, hx, None, True, 1, 0.0, True, False, False, *out, *kept)
