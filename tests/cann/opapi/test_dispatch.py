"""Dispatch and combine in a group of one rank; tests/cann/torch_npu/dispatch.py has two."""
import ctypes as C

import pytest
import torch
from aclnn import Error, call, library_dir, runtime
from samples import TYPES, close

COVERED = set()


@pytest.fixture(scope="module")
def group():
    """The name of a communicator with this process alone."""
    runtime()
    hccl = C.CDLL(str(library_dir() / "libhccl.so"))
    root, comm, name = C.create_string_buffer(4108), C.c_void_p(), C.create_string_buffer(128)
    assert not hccl.HcclGetRootInfo(root)
    assert not hccl.HcclCommInitRootInfo(1, root, 0, C.byref(comm))
    assert not hccl.HcclGetCommName(comm, name)
    yield name.value.decode()
    assert not hccl.HcclCommDestroy(comm)


@pytest.mark.parametrize("version", ("", "V2"))
def test_rows_come_by_expert_and_go_back_weighted(group, version):
    n, k, width, experts = 5, 2, 8, 4
    more = (None,) if version else ()
    for dtype in TYPES["TOKEN"]:
        x = torch.randn(n, width).to(dtype)
        ids = torch.stack([torch.randperm(experts)[:k] for _ in range(n)]).int()
        scales = torch.rand(n, k)
        rows = torch.empty(n * k, width, dtype=dtype)
        places, counts = torch.empty(n * k, dtype=torch.int32), torch.empty(experts).int()
        for kind in (0, 1):
            tokens = torch.empty(experts, dtype=torch.int64)
            call(f"MoeDistributeDispatch{version}", x, ids, None, None, None, group, 1, 0, experts,
                 "", 0, 0, 0, 0, 0, 0, 0, kind, *more, rows, None, places, tokens, counts, None, None)
            want = torch.bincount(ids.flatten().long(), minlength=experts)
            close(tokens, want if kind else want.cumsum(0))
            close(counts, want.cumsum(0).int())
            close(rows, x.repeat_interleave(k, 0)[ids.flatten().sort(stable=True).indices])
        out = torch.empty(n, width, dtype=dtype)
        shared = (None,) if version else ()
        call(f"MoeDistributeCombine{version}", rows, ids, places, counts, scales, None, None, None,
             None, None, None, *shared, group, 1, 0, experts, "", 0, 0, 0, 0, 0, 0, 0, 0, 0, *more, out)
        close(out, (x.double() * scales.double().sum(1, keepdim=True)).to(dtype), 4)
    COVERED.update({f"MoeDistributeDispatch{version}", f"MoeDistributeCombine{version}"})


def test_unsupported_options_are_refused_by_name(group):
    x, ids, out = torch.randn(2, 4), torch.zeros(2, 1).int(), torch.empty(2, 4)
    places, tokens, counts = torch.empty(2).int(), torch.empty(2).long(), torch.empty(2).int()

    def run(name=group, mask=None, tp=0, quant=0):
        call("MoeDistributeDispatch", x, ids, None, mask, None, name, 1, 0, 2, "", tp, 0, 0, 0, 0,
             quant, 0, 0, out, None, places, tokens, counts, None, None)

    for what, text in (({"name": "nobody"}, "no communicator 'nobody'"),
                       ({"mask": torch.ones(2, dtype=torch.bool)}, "x_active_mask"),
                       ({"tp": 2}, "tp_world_size 2"), ({"quant": 2}, "quant_mode 2")):
        with pytest.raises(Error, match=text):
            run(**what)
