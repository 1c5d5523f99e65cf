"""Random programs of views, in-place updates, aliases and several threads equal NumPy.

WEIR_PROGRAM_OPERATORS says how many operators are run in all (default 6000); WEIR_PROGRAM_SEED
moves the programs. Integers, so that every bit must be right.
"""

import os
import random
import threading

import numpy as np
import pytest

import weir

OPERATORS = int(os.environ.get("WEIR_PROGRAM_OPERATORS", "6000"))
SEED = int(os.environ.get("WEIR_PROGRAM_SEED", "1"))
THREADS, STREAMS, TENSORS, SIDE, LENGTH = 3, 4, 5, 8, 60

BINARY = [
    (lambda a, b: a + b, np.add),
    (lambda a, b: a - b, np.subtract),
    (lambda a, b: a * b, np.multiply),
    (weir.maximum, np.maximum),
    (weir.minimum, np.minimum),
]


class Program:
    """One thread's tensors, each beside the array that it must equal."""

    def __init__(self, device, streams, seed):
        self.rng, self.device, self.streams = random.Random(seed), device, streams
        self.stream, self.ran = streams[0], 0
        self.pairs = [self.fresh() for _ in range(TENSORS)]

    def fresh(self):
        """From the host: copied, shared with an array, or shared through DLPack."""
        array = np.array(
            [self.rng.randrange(-99, 99) for _ in range(SIDE * SIDE)], np.int64
        ).reshape(SIDE, SIDE)
        how = self.rng.randrange(4)
        if how == 0:
            return weir.from_numpy(array.copy(), self.device), array
        if how == 1:
            return weir.from_dlpack(array.copy(), self.device), array
        if how == 2:  # the memory of a tensor of weir's, seen by NumPy and lent back
            return weir.from_numpy(weir.tensor(array, device=self.device).numpy(), self.device), array
        return weir.tensor(array, device=self.device), array

    def cut(self, size):
        reach = self.rng.randint(size, SIDE)
        step = self.rng.randint(1, max(1, (reach - 1) // max(1, size - 1)))
        need = (size - 1) * step + 1
        start = self.rng.randint(0, SIDE - need)
        return slice(start, start + need, step)

    def view(self, pair, shape):
        """The same part of both."""
        turned = self.rng.random() < 0.3
        rows, columns = shape[::-1] if turned else shape
        key = (self.cut(rows), self.cut(columns))
        tensor, array = pair[0][key], pair[1][key]
        return (tensor.T, array.T) if turned else (tensor, array)

    def shape(self):
        return self.rng.randint(1, SIDE), self.rng.randint(1, SIDE)

    def step(self):
        rng = self.rng
        self.ran += 1
        stream = rng.choice(self.streams)
        if stream is not self.stream:
            stream.wait_stream(self.stream)
            self.stream = stream
        with weir.stream(stream):
            kind = rng.randrange(8)
            shape = self.shape()
            a, b = (self.view(rng.choice(self.pairs), shape) for _ in range(2))
            if kind == 0:
                self.pairs[rng.randrange(TENSORS)] = self.fresh()
            elif kind == 1:
                value = rng.randrange(-9, 9)
                a[0].fill_(value)
                a[1][...] = value
            elif kind in (2, 3):
                self.update(a, b)
            elif kind == 4:
                ours, numpys = rng.choice(BINARY)
                self.grow(ours(a[0], b[0]), numpys(a[1], b[1]))
            elif kind == 5:
                axis = rng.randrange(2)
                self.grow(a[0] + b[0].sum(axis, True), a[1] + b[1].sum(axis, keepdims=True))
            elif kind == 6:
                self.grow(weir.concat([a[0], b[0]], 0), np.concatenate([a[1], b[1]]))
            else:
                self.grow(
                    weir.where(a[0] > b[0], a[0], -b[0]), np.where(a[1] > b[1], a[1], -b[1])
                )

    def update(self, to, other):
        """to += other, or to = other, in place; refused exactly where they share elements."""
        start, other_start = (x.__array_interface__["data"] for x in (to[1], other[1]))
        same = start == other_start and all(
            n == 1 or mine == its
            for n, mine, its in zip(to[1].shape, to[1].strides, other[1].strides, strict=True)
        )
        if np.shares_memory(to[1], other[1]) and not same:
            with pytest.raises(ValueError, match="overlaps"):
                to[0].copy_(other[0])
        elif self.rng.random() < 0.5:
            to[0].copy_(other[0])
            to[1][...] = other[1]
        else:
            made = to[0] + other[0]
            to[0].copy_(made)
            to[1][...] = to[1] + other[1]

    def grow(self, tensor, array):
        """A result is put into a whole tensor again: in place, or as one of its own."""
        rows, columns = min(SIDE, array.shape[0]), min(SIDE, array.shape[1])
        pair = self.rng.choice(self.pairs)
        pair[0][:rows, :columns].copy_(tensor[:rows, :columns])
        pair[1][:rows, :columns] = array[:rows, :columns]

    def check(self, seed):
        for at, (tensor, array) in enumerate(self.pairs):
            assert np.array_equal(tensor.numpy(), array), f"seed {seed}, tensor {at}"


@pytest.mark.parametrize("spec", ["cpu:cores=3,threads=2,jitter=5", "npu:a3"])
def test_random_programs_of_views_aliases_and_threads_equal_numpy(spec):
    device = weir.Device(spec)
    failures, ran = [], [0] * THREADS

    def work(index):
        try:
            streams = [weir.Stream(device=device) for _ in range(STREAMS)]
            seed = SEED * 1000003 + index * 7919
            while ran[index] < OPERATORS // (2 * THREADS):
                program = Program(device, streams, seed)
                for _ in range(LENGTH):
                    program.step()
                program.check(seed)
                ran[index] += program.ran
                seed += 1
        except BaseException as error:  # told by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(3600)
    assert not failures, failures[0]
    assert sum(ran) >= OPERATORS // 2 - THREADS * LENGTH
    print(f"{sum(ran)} operators on {spec}")
