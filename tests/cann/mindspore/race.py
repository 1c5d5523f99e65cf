"""The sample of MindSpore's document that lacks its wait."""
import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

ms.set_device("Ascend", 0)
s = ms.hal.Stream()
A = Tensor(np.random.randn(20, 20), ms.float32)
B = ops.matmul(A, A)
with ms.hal.StreamCtx(s):
    C = ops.sum(B)
ms.hal.synchronize()
print("fine")
