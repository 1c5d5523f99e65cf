"""``torch.distributed`` over weir: ``import weir.distributed`` registers the backend ``weir``.

    torch.distributed.init_process_group("weir")

Tensors are the host's, processes of one machine. Reductions are made in the order of the ranks and
give the same bits everywhere. A rank that dies, stops or calls something else is an error on every
rank, with its number, within a second.
"""

from __future__ import annotations

import datetime
import os
import queue
import tempfile
import threading
import time
import uuid

import torch
from torch import distributed as dist

from .. import _C
from .._create import from_dlpack
from ..errors import Error
from ..streams import stream as use_stream
from . import _operands
from ._work import Work, Works, resolve_all

__all__ = ["ProcessGroupWeir"]

_KEPT = []  # groups that plans outlive


class ProcessGroupWeir(dist.ProcessGroup):
    """The ranks of one machine, each a process."""

    def __init__(self, store, rank, size, timeout, name="weir"):
        super().__init__(rank, size)
        self._name = name
        if rank == 0:
            name = f"weir-{os.geteuid()}-{uuid.uuid4().hex}"
            store.set("weir", os.path.join(tempfile.gettempdir(), name))
        path = store.get("weir").decode()
        seconds = timeout.total_seconds()
        self._device = _C.Device(f"cpu:cores=2,op_timeout={int(seconds * 2) + 10}")
        self._group = _C.Group(
            self._device,
            rank=rank,
            ranks=size,
            store=f"file:{path}",
            timeout=seconds,
            join_timeout=seconds,
        )
        self._store, self._seconds, self._in_plans = store, seconds, {}
        self._streams = {}
        self._waiting = None
        self._together = None  # works of a coalescing manager
        self._barriers = 0

    def getBackendName(self):
        return self._name

    # Functional collectives look groups up by name.
    @property
    def pg_name(self):
        return dist.distributed_c10d._world.pg_names.get(self, "")

    @property
    def group_name(self):
        return self.pg_name

    def supports_coalescing(self):
        return False

    def abort(self):
        self._group.abort("torch.distributed")

    def shutdown(self):
        self._group.close()
        for group in self._in_plans.values():
            try:
                group.close()
            except Error:  # plans still have it; to break it would break what others run
                _KEPT.append(group)
        self._in_plans = {}

    def _plan_group(self, device):
        """The group for collectives of plans on that device. All ranks compile the same calls."""
        if device not in self._in_plans:
            key = f"weir in plans {len(self._in_plans)}"
            if self.rank() == 0:
                name = f"weir-{os.geteuid()}-{uuid.uuid4().hex}"
                self._store.set(key, os.path.join(tempfile.gettempdir(), name))
            self._in_plans[device] = _C.Group(
                device,
                rank=self.rank(),
                ranks=self.size(),
                store=f"file:{self._store.get(key).decode()}",
                name=self.pg_name[:40] or "weir",
                timeout=self._seconds,
                join_timeout=self._seconds,
            )
        return self._in_plans[device]

    # ---- how a call is made ----

    def _stream(self, key=None):
        """Collectives are in order; each pair of ranks has a stream for each direction."""
        if key not in self._streams:
            self._streams[key] = _C.Stream(device=self._device)
        return self._streams[key]

    def _start(self, calls, keep, finish=(), result=None, key=None):
        stream = self._stream(key)
        try:
            with use_stream(stream):
                for call in calls:
                    call()
        except Exception as error:
            self._raise_broken(error)
            raise
        event = _C.Event(device=self._device)
        event.record(stream)
        work = Work(self, event, keep, list(finish), result)
        if self._together is not None:
            self._together.append(work)
        return work

    # ---- calls that are waited for together ----

    def _start_coalescing(self, device):
        self._together = []

    def _end_coalescing(self, device):
        works, self._together = self._together, None
        return Works(self, works)

    def _raise_broken(self, error):
        """As an error of the backend, if it is because the group is broken."""
        try:
            self._group.check()
        except Exception as reason:
            raise dist.DistBackendError(str(reason)) from error

    def _share(self, tensor):
        return from_dlpack(tensor, self._device)

    def _finish_later(self, work):
        if self._waiting is None:
            self._waiting = queue.SimpleQueue()
            threading.Thread(target=resolve_all, args=(self._waiting,), daemon=True).start()
        self._waiting.put(work)

    # ---- collectives ----

    def allreduce(self, tensors, opts=None):
        op = _operands.reduction(opts)
        finish, calls, keep = [], [], []
        for tensor in tensors:
            packed = _operands.numbers(tensor, finish)
            mine = self._share(packed)
            keep += [packed, mine]
            calls.append(lambda mine=mine: self._group.all_reduce(mine, mine, op))
        return self._start(calls, keep, finish, tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors, opts=None):
        op, root = _operands.reduction(opts), opts.rootRank
        finish, calls, keep = [], [], []
        for tensor in tensors:
            after = []
            packed = _operands.numbers(tensor, after)
            if self.rank() != root:  # its tensor stays as it is
                packed, after = packed.clone(), []
            finish += after
            mine = self._share(packed)
            keep += [packed, mine]
            calls.append(lambda mine=mine: self._group.all_reduce(mine, mine, op))
        return self._start(calls, keep, finish, tensors)

    def broadcast(self, tensors, opts=None):
        root = opts.rootRank
        finish, calls, keep = [], [], []
        for tensor in tensors:
            packed = _operands.as_bytes(tensor, finish)
            mine = self._share(packed)
            keep += [packed, mine]
            calls.append(lambda mine=mine: self._group.broadcast(mine, root))
        return self._start(calls, keep, finish, tensors)

    def _gather_into(self, output, x, finish, calls, keep):
        packed, out = _operands.as_bytes(x), _operands.as_bytes(output, finish)
        _operands.check_size(out.numel(), packed.numel() * self.size(), "all_gather: the output", output)
        packed = _operands.apart(packed, out)
        mine, all_of = self._share(packed), self._share(out)
        keep += [packed, out, mine, all_of]
        calls.append(lambda: self._group.all_gather(mine, all_of))

    def _allgather_base(self, output, x, opts=None):
        finish, calls, keep = [], [], []
        self._gather_into(output, x, finish, calls, keep)
        return self._start(calls, keep, finish, [output])

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        finish, calls, keep = [], [], []
        for output, x in zip(outputs, inputs):
            self._gather_into(output, x, finish, calls, keep)
        return self._start(calls, keep, finish, outputs)

    # PyTorch's later names of the same.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather(self, outputs, inputs, opts=None):
        """Outputs of different sizes are gathered as they are."""
        finish, calls, keep = [], [], []
        for outs, x in zip(outputs, inputs):
            packed = _operands.as_bytes(x)
            sizes = [out.numel() * out.element_size() for out in outs]
            _operands.check_size(sizes[self.rank()], packed.numel(), "all_gather: the own output", x)
            x_all, row = packed.repeat(self.size()), torch.empty(sum(sizes), dtype=torch.uint8)
            mine, all_of = self._share(x_all), self._share(row)
            keep += [x_all, row, mine, all_of]
            send = [packed.numel()] * self.size()
            if all(size == sizes[0] for size in sizes):
                mine = self._share(packed)
                keep += [packed, mine]
                calls.append(lambda m=mine, a=all_of: self._group.all_gather(m, a))
            else:
                calls.append(
                    lambda m=mine, a=all_of, s=send, r=sizes: self._group.all_to_all(m, a, s, r)
                )
            finish.append(lambda row=row, outs=outs: _operands.cut(row, outs))
        return self._start(calls, keep, finish, outputs)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        by_input = [[outs[i] for outs in outputs] for i in range(len(inputs))]
        return self.allgather(by_input, inputs, opts)

    def _reduce_scatter_into(self, output, x, op, finish, calls, keep):
        packed, out = _operands.numbers(x, []), _operands.numbers(output, finish)
        _operands.check_size(packed.numel(), out.numel() * self.size(), "reduce_scatter: the input", x)
        packed = _operands.apart(packed, out)
        whole, mine = self._share(packed), self._share(out)
        keep += [packed, out, whole, mine]
        calls.append(lambda: self._group.reduce_scatter(whole, mine, op))

    def _reduce_scatter_base(self, output, x, opts=None):
        finish, calls, keep = [], [], []
        self._reduce_scatter_into(output, x, _operands.reduction(opts), finish, calls, keep)
        return self._start(calls, keep, finish, [output])

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        finish, calls, keep = [], [], []
        for output, x in zip(outputs, inputs):
            self._reduce_scatter_into(output, x, _operands.reduction(opts), finish, calls, keep)
        return self._start(calls, keep, finish, outputs)

    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def reduce_scatter(self, outputs, inputs, opts=None):
        """Parts of different sizes are parts of the whole reduction."""
        op, me = _operands.reduction(opts), self.rank()
        finish, calls, keep = [], [], []
        for output, parts in zip(outputs, inputs):
            whole = torch.cat([_operands.numbers(part, []) for part in parts])
            first = sum(part.numel() for part in parts[:me])
            scale = whole.numel() // max(1, sum(part.numel() for part in parts))
            mine = self._share(whole)
            keep += [whole, mine]
            calls.append(lambda mine=mine: self._group.all_reduce(mine, mine, op))
            finish.append(
                lambda w=whole, o=output, f=first * scale: _operands.place(w, o, f)
            )
        return self._start(calls, keep, finish, outputs)

    def alltoall_base(self, output, x, output_splits, input_splits, opts=None):
        finish, keep = [], []
        packed, out = _operands.as_bytes(x), _operands.as_bytes(output, finish)
        send = _operands.split_bytes(input_splits, x, self.size())
        recv = _operands.split_bytes(output_splits, output, self.size())
        packed = _operands.apart(packed, out)
        mine, all_of = self._share(packed), self._share(out)
        keep += [packed, out, mine, all_of]
        return self._start(
            [lambda: self._group.all_to_all(mine, all_of, send, recv)], keep, finish, [output]
        )

    all_to_all_single = alltoall_base

    def alltoall(self, outputs, inputs, opts=None):
        packed = torch.cat([_operands.as_bytes(x) for x in inputs])
        send = [x.numel() * x.element_size() for x in inputs]
        recv = [x.numel() * x.element_size() for x in outputs]
        row = torch.empty(sum(recv), dtype=torch.uint8)
        mine, all_of = self._share(packed), self._share(row)
        return self._start(
            [lambda: self._group.all_to_all(mine, all_of, send, recv)],
            [packed, row, mine, all_of],
            [lambda: _operands.cut(row, outputs)],
            outputs,
        )

    def gather(self, outputs, inputs, opts=None):
        root, x = opts.rootRank, inputs[0]
        packed = _operands.as_bytes(x)
        at_root = self.rank() == root
        send = [packed.numel() if i == root else 0 for i in range(self.size())]
        recv = [packed.numel() if at_root else 0] * self.size()
        row = torch.empty(sum(recv), dtype=torch.uint8)
        mine, all_of = self._share(packed), self._share(row)
        return self._start(
            [lambda: self._group.all_to_all(mine, all_of, send, recv)],
            [packed, row, mine, all_of],
            [lambda: _operands.cut(row, outputs[0])] if at_root else [],
            outputs,
        )

    def scatter(self, outputs, inputs, opts=None):
        root, output = opts.rootRank, outputs[0]
        finish = []
        out = _operands.as_bytes(output, finish)
        at_root = self.rank() == root
        whole = (
            torch.cat([_operands.as_bytes(x) for x in inputs[0]])
            if at_root
            else torch.empty(0, dtype=torch.uint8)
        )
        send = [out.numel() if at_root else 0] * self.size()
        recv = [out.numel() if i == root else 0 for i in range(self.size())]
        all_of, mine = self._share(whole), self._share(out)
        return self._start(
            [lambda: self._group.all_to_all(all_of, mine, send, recv)],
            [whole, out, all_of, mine],
            finish,
            outputs,
        )

    def send(self, tensors, to, tag=0):
        packed = _operands.as_bytes(tensors[0])
        mine = self._share(packed)
        return self._start(
            [lambda: self._group.send(mine, to)], [packed, mine], (), tensors, ("to", to)
        )

    def recv(self, tensors, source, tag=0):
        finish = []
        packed = _operands.as_bytes(tensors[0], finish)
        mine = self._share(packed)
        return self._start(
            [lambda: self._group.recv(mine, source)],
            [packed, mine],
            finish,
            tensors,
            ("from", source),
        )

    def recv_anysource(self, tensors, tag=0):
        raise NotImplementedError("backend weir: a receive names its source")

    def barrier(self, opts=None):
        return self._start([self._group.barrier], [])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Rank 0 names the first rank that does not come in time, or all of them; the group stays
        as it is."""
        seconds = timeout.total_seconds() if timeout is not None else self._seconds
        key, self._barriers = f"weir barrier {self._barriers}", self._barriers + 1
        end = time.monotonic() + seconds
        if self.rank():
            self._store.set(f"{key} {self.rank()}", "here")
            answer = self._await(key, end + 1) or b"rank 0 did not come"
        else:
            late = []
            for rank in range(1, self.size()):
                if self._await(f"{key} {rank}", end) is None:
                    late.append(rank)
                    if not wait_all_ranks:
                        break
            names = ", ".join(f"rank {rank}" for rank in late)
            answer = f"{names} did not come".encode() if late else b"all"
            self._store.set(key, answer)
        if answer != b"all":
            raise RuntimeError(f"monitored barrier: {answer.decode()} within {seconds:g} s")

    def _await(self, key, end):
        """What the store has there; None if it has nothing until then."""
        left = max(end - time.monotonic(), 0.001)
        try:
            self._store.wait([key], datetime.timedelta(seconds=left))
        except RuntimeError:  # stores have different ones
            return None
        return self._store.get(key)


def _make(store, rank, size, timeout):
    return ProcessGroupWeir(store, rank, size, timeout)


def register(name="weir"):
    """Teaches PyTorch the backend."""
    if not hasattr(dist.Backend, name.upper()):
        dist.Backend.register_backend(name, _make, devices=["cpu"])


if dist.is_available():
    register()
