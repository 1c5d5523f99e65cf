"""mindspore.communication over libhccl, a process for each rank (started by msrun)."""
import os

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import get_group_size, get_rank, init

ms.set_device("Ascend", int(os.environ["RANK_ID"]))
init("hccl")
rank, n = get_rank(), get_group_size()
x = Tensor(np.full((8,), rank + 1), ms.float32)
assert (ops.AllReduce()(x).asnumpy() == n * (n + 1) / 2).all()
assert (ops.AllGather()(x).asnumpy().reshape(n, 8)[:, 0] == np.arange(n) + 1).all()
print("rank", rank, "is fine")
