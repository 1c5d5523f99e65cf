"""weir's convolutions on the host beside PyTorch's, layer by layer of networks that people run.

    convolutions.py [--threads N] [--rounds N] [--types float32,bfloat16] [NAME ...]

Rounds take turns in one process; figures are the fastest round of each. On a machine that others
use, run it at real-time priority (chrt -r 1). NAME picks rows that have it in their name.
"""

import argparse
import time
import warnings

import torch

import weir

SETTLE = 0.05  # until the threads of the other have stopped spinning

# name, images, channels, height, width, filters, kernel, stride, padding, groups
ROWS = [
    ("resnet stem", 1, 3, 224, 224, 64, (7, 7), 2, (3, 3), 1),
    ("resnet 1x1 64-256", 1, 64, 56, 56, 256, (1, 1), 1, (0, 0), 1),
    ("resnet 3x3 64", 1, 64, 56, 56, 64, (3, 3), 1, (1, 1), 1),
    ("resnet 3x3 128", 1, 128, 28, 28, 128, (3, 3), 1, (1, 1), 1),
    ("resnet 3x3 128, stride 2", 1, 128, 56, 56, 128, (3, 3), 2, (1, 1), 1),
    ("resnet 1x1 512-128", 1, 512, 28, 28, 128, (1, 1), 1, (0, 0), 1),
    ("resnet 3x3 256", 1, 256, 14, 14, 256, (3, 3), 1, (1, 1), 1),
    ("resnet 1x1 1024-256", 1, 1024, 14, 14, 256, (1, 1), 1, (0, 0), 1),
    ("resnet 3x3 512", 1, 512, 7, 7, 512, (3, 3), 1, (1, 1), 1),
    ("resnet 1x1 2048-512", 1, 2048, 7, 7, 512, (1, 1), 1, (0, 0), 1),
    ("resnet 1x1 512-2048", 1, 512, 7, 7, 2048, (1, 1), 1, (0, 0), 1),
    ("resnet 1x1, stride 2", 1, 1024, 14, 14, 2048, (1, 1), 2, (0, 0), 1),
    ("resnet 3x3 128 of 8", 8, 128, 28, 28, 128, (3, 3), 1, (1, 1), 1),
    ("resnext 32 groups", 1, 128, 28, 28, 128, (3, 3), 1, (1, 1), 32),
    ("convnext patches", 1, 3, 224, 224, 96, (4, 4), 4, (0, 0), 1),
    ("convnext 2x2, stride 2", 1, 96, 56, 56, 192, (2, 2), 2, (0, 0), 1),
    ("depthwise 7x7 96", 1, 96, 56, 56, 96, (7, 7), 1, (3, 3), 96),
    ("depthwise 7x7 384", 1, 384, 14, 14, 384, (7, 7), 1, (3, 3), 384),
    ("depthwise 3x3", 1, 144, 56, 56, 144, (3, 3), 1, (1, 1), 144),
    ("depthwise 3x3, stride 2", 1, 144, 56, 56, 144, (3, 3), 2, (1, 1), 144),
    ("wav2vec 0", 1, 1, 1, 48000, 512, (1, 10), 5, (0, 0), 1),
    ("wav2vec 1", 1, 512, 1, 9599, 512, (1, 3), 2, (0, 0), 1),
    ("wav2vec 5", 1, 512, 1, 599, 512, (1, 2), 2, (0, 0), 1),
    ("wav2vec places", 1, 768, 1, 149, 768, (1, 128), 1, (0, 64), 16),
    ("whisper 1", 1, 80, 1, 3000, 768, (1, 3), 1, (0, 1), 1),
    ("whisper 2", 1, 768, 1, 3000, 768, (1, 3), 2, (0, 1), 1),
    ("unet 3x3 128", 1, 128, 32, 32, 128, (3, 3), 1, (1, 1), 1),
    ("vae 3x3 256", 1, 256, 64, 64, 256, (3, 3), 1, (1, 1), 1),
]


def prepare(row, dtype):
    """(what PyTorch runs, what weir runs, the result in float64)."""
    _, images, channels, height, width, filters, kernel, stride, padding, groups = row
    torch.manual_seed(0)
    x = torch.randn(images, channels, height, width, dtype=dtype)
    flat = height == 1  # PyTorch has an operator for one row
    strides = (1, stride) if flat else (stride, stride)
    net = torch.nn.Conv2d(channels, filters, kernel, strides, padding, groups=groups).to(dtype)
    line = torch.nn.Conv1d(channels, filters, kernel[1], stride, padding[1], groups=groups).to(dtype)
    line.weight.data = net.weight.data[:, :, 0].clone()
    line.bias = net.bias
    wanted = net.double()(x.double())
    net.to(dtype)
    operands = [weir.from_dlpack(t.detach()) for t in (x, net.weight, net.bias)]

    def torchs():
        return line(x[:, :, 0])[:, :, None] if flat else net(x)

    def weirs():
        y = weir.conv2d(*operands, stride=strides, padding=padding, groups=groups)
        weir.synchronize()
        return y

    return torchs, weirs, wanted


def fastest(ways, rounds):
    """Seconds a call, of each."""
    begun = time.perf_counter()
    ways[-1]()
    calls = max(1, min(200, int(0.01 / (time.perf_counter() - begun))))
    best = [float("inf")] * len(ways)
    for _ in range(rounds):
        for i, way in enumerate(ways):
            time.sleep(SETTLE)
            way()
            begun = time.perf_counter()
            for _ in range(calls):
                way()
            best[i] = min(best[i], (time.perf_counter() - begun) / calls)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--types", default="float32,bfloat16")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()

    warnings.filterwarnings("ignore")
    torch.set_num_threads(args.threads)
    weir.set_device(f"cpu:cores={args.threads}")
    for dtype in (getattr(torch, name) for name in args.types.split(",")):
        for row in ROWS:
            if args.names and not any(name in row[0] for name in args.names):
                continue
            with torch.no_grad():
                torchs, weirs, wanted = prepare(row, dtype)
                off = [(got.double() - wanted).abs().max().item()
                       for got in (torchs(), torch.from_dlpack(weirs()))]  # fmt: skip
                theirs, ours = fastest([torchs, weirs], args.rounds)
            print(f"{row[0]:25} {str(dtype)[6:]:9} PyTorch {theirs * 1e6:8.0f} us  weir {ours * 1e6:8.0f} us"
                  f"  ratio {ours / theirs:5.2f}  to f64 {off[0]:.1e} {off[1]:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
