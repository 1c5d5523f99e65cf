"""Two modelled cards that wait for each other for ever: the report says who holds which cores.

Each card is a thread. On one the first collective comes first, on the other the second; each holds
its cores until the other card has come to it, and nonzero takes what is left of all 48. With the
argument "limited" nonzero is limited to the cores that both collectives leave, and all goes well.
"""
import os
import sys
import threading
import time
from pathlib import Path

os.environ["HCCL_ASYNC_ERROR_HANDLING"] = "0"  # its watchdog would end the process

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_npu  # noqa: E402, F401
from torch_npu._C._distributed_c10d import ProcessGroupHCCL  # noqa: E402

LIMITED = "limited" in sys.argv
store, ready = dist.HashStore(), threading.Barrier(2)
said, numbers = {}, {}


def hold(_):
    """Until both cards wait in nonzero: then everything is queued."""
    asleep = 0
    while asleep < 10:
        time.sleep(0.05)
        states = [Path(f"/proc/self/task/{n}/stat").read_text().rpartition(")")[2].split()[0]
                  for n in numbers.values()]
        asleep = asleep + 1 if states == ["S", "S"] else 0


def card(rank):
    torch.npu.set_device(rank)
    groups = [ProcessGroupHCCL(dist.PrefixStore(name, store), rank, 2, ProcessGroupHCCL.Options())
              for name in ("reduce_scatter", "dispatch_combine")]
    parts = [torch.ones(n).npu() for n in (160_000, 240_000)]  # that many take 16 and 24 cores
    mask = (torch.arange(1 << 22) % 3 == 0).npu()
    weight, small = torch.ones(4096, 4096).half().npu(), torch.ones(1024, 1024).half().npu()
    for group in groups:  # they meet once, so that communicators are there
        group.allreduce([torch.ones(4).npu()]).wait()
    torch.npu.synchronize()
    ready.wait()
    gate, side = torch.npu.Stream(), torch.npu.Stream()
    torch.npu._subscribe_report(gate)
    torch.npu._launch_host_func(gate, hold, None)
    side.wait_stream(gate)
    torch.npu.current_stream().wait_stream(gate)
    if LIMITED:
        torch.npu.set_stream_limit(torch.npu.current_stream(), vector_num=8)
    first, other = (0, 1) if rank == 0 else (1, 0)
    with torch.npu.stream(side):  # cube cores are busy for a while before the other collective
        for _ in range(4):
            weight @ weight
        works = [groups[other].allreduce([parts[other]])]
    works.append(groups[first].allreduce([parts[first]]))
    try:
        small @ small  # the first collective is there before
        numbers[rank] = threading.get_native_id()
        found = mask.nonzero()
        for work in works:
            work.wait()
        torch.npu.synchronize()
        assert len(found) == (1 << 22) // 3 + 1 and all((p.cpu() == 2).all() for p in parts)
        said[rank] = "went well"
    except RuntimeError as error:
        said[rank] = str(error)


cards = [threading.Thread(target=card, args=(rank,)) for rank in range(2)]
for thread in cards:
    thread.start()
for thread in cards:
    thread.join()
if LIMITED:
    assert set(said.values()) == {"went well"}, said
else:
    assert len(said) == 2 and "went well" not in said.values(), said  # torch_npu prints the report
print("fine", flush=True)
os._exit(0)  # what waits for ever is not waited for
