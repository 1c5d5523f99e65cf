"""``torch.distributed`` over weir: ``import weir.distributed`` registers the backend ``weir``.

    torch.distributed.init_process_group("weir")

Tensors are on the host or on a GPU; all processes run on one machine. Reductions are computed in
the order of the ranks and give equal bits everywhere (except with ``WEIR_ENGINE=nccl``, for GPUs).
If a rank dies, stops or calls something else, every rank gets an error with its number within a
second.
"""

from __future__ import annotations

import collections
import datetime
import functools
import queue
import threading
import time

import torch
from torch import distributed as dist

from .. import _C
from ..errors import Error
from . import _operands
from ._side import Side, engine_for, new_address
from ._work import AnyWork, Call, Works, resolve_all

__all__ = ["ProcessGroupWeir"]

_KEPT = []  # groups that plans still use after they were closed


class ProcessGroupWeir(dist.ProcessGroup):
    """The ranks of one machine, each a process. On a GPU :meth:`Work.wait` waits on the host, so that
    the caller has the values, or an error, when it returns."""

    supports_splitting = False  # dist.new_group creates new groups

    def __init__(self, store, rank, size, timeout, name="weir"):
        super().__init__(rank, size)
        self._name, self._store = name, store
        self.seconds = timeout.total_seconds()
        self._sides, self._in_plans, self._joins = {}, {}, collections.Counter()
        self._waiting = None
        self._together = None  # the works of an open coalescing manager
        self._barriers = 0
        self._receiving = threading.RLock()
        self._host = self._side_of(torch.device("cpu"))
        self._host.group()

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

    @property
    def _device_types(self):
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, device):
        return self

    def _groups(self):
        return [group for side in self._sides.values() for group in side.groups.values()]

    def abort(self):
        for group in self._groups():
            group.abort("torch.distributed")

    def shutdown(self):
        for group in self._groups():
            group.close()
        for group in self._in_plans.values():
            try:
                group.close()
            except Error:  # plans still use it; breaking it would break other ranks' runs
                _KEPT.append(group)
        self._in_plans = {}

    def join(self, device, key, who, name="weir"):
        """Creates the group of these ranks on weir's device. The n-th call with a key meets the
        others' n-th."""
        self._joins[key] += 1
        key = f"{key} {self._joins[key]}"
        if self.rank() == who[0]:
            self._store.set(key, new_address())
        return _C.Group(
            device,
            rank=who.index(self.rank()),
            ranks=len(who),
            store=f"file:{self._store.get(key).decode()}",
            name=name,
            timeout=self.seconds,
            join_timeout=self.seconds,
            engine=engine_for(device),
        )

    def _plan_group(self, device):
        """The group for collectives in plans on that device. All ranks must compile the same
        calls."""
        if device not in self._in_plans:
            everybody, name = tuple(range(self.size())), self.pg_name[:40] or "weir"
            self._in_plans[device] = self.join(device, "weir in plans", everybody, name)
        return self._in_plans[device]

    # ---- making a call ----

    def _side_of(self, where):
        """The Side for tensors on that device of PyTorch."""
        if where not in self._sides:
            self._sides[where] = Side(self, where)
        return self._sides[where]

    # ---- coalesced calls ----

    def _start_coalescing(self, device):
        self._together = []

    def _end_coalescing(self, device):
        works, self._together = self._together, None
        return Works(self, works)

    def _finish_later(self, work):
        if self._waiting is None:
            self._waiting = queue.SimpleQueue()
            threading.Thread(target=resolve_all, args=(self._waiting,), daemon=True).start()
        self._waiting.put(work)

    # ---- collectives ----

    def allreduce(self, tensors, opts=None):
        op, call = _operands.reduction(opts, tensors), Call(self, tensors)
        for tensor in tensors:
            if callable(op):
                self._combine(call, tensor, op)
                continue
            mine = call.share(_operands.numbers(tensor, call.finish))
            name = _operands.of_type(op, tensor)
            call.add(lambda g, mine=mine, name=name: g.all_reduce(mine, mine, name))
        return call.start(tensors)

    allreduce_coalesced = allreduce

    def _combine(self, call, tensor, op, wanted=True):
        """Combines all ranks' bits here: weir has no such reduction."""
        packed = _operands.as_bytes(tensor)
        row = call.room(packed.numel() * self.size())
        mine, all_of = call.share(packed), call.share(row)
        call.add(lambda g: g.all_gather(mine, all_of))
        if wanted:
            call.finish.append(lambda: _operands.combine(row, tensor, op))

    def _combine_parts(self, call, output, parts, op):
        packed = torch.cat([_operands.as_bytes(part) for part in parts])
        send = [part.numel() * part.element_size() for part in parts]
        size = output.numel() * output.element_size()
        row = call.room(size * self.size())
        call.exchange(packed, row, send, [size] * self.size())
        call.finish.append(lambda: _operands.combine(row, output, op))

    def reduce(self, tensors, opts=None):
        op, root, call = _operands.reduction(opts, tensors), opts.rootRank, Call(self, tensors)
        for tensor in tensors:
            if callable(op):
                self._combine(call, tensor, op, self.rank() == root)
                continue
            after = []
            packed = _operands.numbers(tensor, after)
            if self.rank() != root:  # other ranks keep their tensors unchanged
                packed, after = packed.clone(), []
            call.finish += after
            mine, name = call.share(packed), _operands.of_type(op, tensor)
            call.add(lambda g, mine=mine, name=name: g.all_reduce(mine, mine, name))
        return call.start(tensors)

    def broadcast(self, tensors, opts=None):
        root, call = opts.rootRank, Call(self, tensors)
        for tensor in tensors:
            mine = call.share(_operands.as_bytes(tensor, call.finish))
            call.add(lambda g, mine=mine: g.broadcast(mine, root))
        return call.start(tensors)

    def _gather_into(self, call, output, x):
        packed, out = _operands.as_bytes(x), _operands.as_bytes(output, call.finish)
        _operands.check_size(out.numel(), packed.numel() * self.size(), "all_gather: the output", output)
        mine, all_of = call.share(_operands.apart(packed, out)), call.share(out)
        call.add(lambda g: g.all_gather(mine, all_of))

    def _allgather_base(self, output, x, opts=None):
        return self.allgather_into_tensor_coalesced([output], [x])

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        call = Call(self, [*outputs, *inputs])
        for output, x in zip(outputs, inputs):
            self._gather_into(call, output, x)
        return call.start(outputs)

    # PyTorch's newer names for these methods.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather(self, outputs, inputs, opts=None):
        """Gathers tensors; outputs may differ in size."""
        call = Call(self, inputs)
        for outs, x in zip(outputs, inputs):
            packed = _operands.as_bytes(x)
            sizes = [out.numel() * out.element_size() for out in outs]
            _operands.check_size(sizes[self.rank()], packed.numel(), "all_gather: the own output", x)
            row = call.room(sum(sizes))
            all_of = call.share(row)
            if all(size == sizes[0] for size in sizes):
                mine = call.share(packed)
                call.add(lambda g, m=mine, a=all_of: g.all_gather(m, a))
            else:
                mine, send = call.share(packed.repeat(self.size())), [packed.numel()] * self.size()
                call.add(lambda g, m=mine, a=all_of, s=send, r=sizes: g.all_to_all(m, a, s, r))
            call.finish.append(lambda row=row, outs=outs: _operands.cut(row, outs))
        return call.start(outputs)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        by_input = [[outs[i] for outs in outputs] for i in range(len(inputs))]
        return self.allgather(by_input, inputs, opts)

    def _reduce_scatter_into(self, call, output, x, op):
        wanted = output.numel() * self.size()
        _operands.check_size(x.numel(), wanted, "reduce_scatter: the input", x)
        if callable(op):
            parts = x.contiguous().view(-1).chunk(self.size()) if wanted else [x] * self.size()
            self._combine_parts(call, output, parts, op)
            return
        packed, out = _operands.numbers(x, []), _operands.numbers(output, call.finish)
        whole, mine = call.share(_operands.apart(packed, out)), call.share(out)
        name = _operands.of_type(op, output)
        call.add(lambda g: g.reduce_scatter(whole, mine, name))

    def _reduce_scatter_base(self, output, x, opts=None):
        return self.reduce_scatter_tensor_coalesced([output], [x], opts)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        op, call = _operands.reduction(opts, [*outputs, *inputs]), Call(self, [*outputs, *inputs])
        for output, x in zip(outputs, inputs):
            self._reduce_scatter_into(call, output, x, op)
        return call.start(outputs)

    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def reduce_scatter(self, outputs, inputs, opts=None):
        """Reduces and scatters; parts of different sizes are cut from the whole reduction."""
        op, me, call = _operands.reduction(opts, outputs), self.rank(), Call(self, outputs)
        for output, parts in zip(outputs, inputs):
            _operands.check_parts(parts, self.size(), "reduce_scatter", "inputs")
            _operands.check_size(parts[me].numel(), output.numel(), "reduce_scatter: the own input", parts[me])
            if callable(op):
                self._combine_parts(call, output, parts, op)
                continue
            whole = torch.cat([_operands.numbers(part, []) for part in parts])
            first = sum(part.numel() for part in parts[:me])
            scale = whole.numel() // max(1, sum(part.numel() for part in parts))
            mine, name = call.share(whole), _operands.of_type(op, output)
            call.add(lambda g, mine=mine, name=name: g.all_reduce(mine, mine, name))
            call.finish.append(
                lambda w=whole, o=output, f=first * scale: _operands.place(w, o, f)
            )
        return call.start(outputs)

    def alltoall_base(self, output, x, output_splits, input_splits, opts=None):
        call = Call(self, [output, x])
        packed, out = _operands.as_bytes(x), _operands.as_bytes(output, call.finish)
        send = _operands.split_bytes(input_splits, x, self.size())
        recv = _operands.split_bytes(output_splits, output, self.size())
        call.exchange(_operands.apart(packed, out), out, send, recv)
        return call.start([output])

    all_to_all_single = alltoall_base

    def alltoall(self, outputs, inputs, opts=None):
        call = Call(self, [*outputs, *inputs])
        packed = torch.cat([_operands.as_bytes(x) for x in inputs])
        send = [x.numel() * x.element_size() for x in inputs]
        recv = [x.numel() * x.element_size() for x in outputs]
        row = call.room(sum(recv))
        call.exchange(packed, row, send, recv)
        call.finish.append(lambda: _operands.cut(row, outputs))
        return call.start(outputs)

    def gather(self, outputs, inputs, opts=None):
        root, call = opts.rootRank, Call(self, inputs)
        packed = _operands.as_bytes(inputs[0])
        at_root = self.rank() == root
        if at_root:
            _operands.check_parts(outputs[0], self.size(), "gather", "outputs")
            for out in outputs[0]:
                size = out.numel() * out.element_size()
                _operands.check_size(size, packed.numel(), "gather: an output", out)
        send = [packed.numel() if i == root else 0 for i in range(self.size())]
        recv = [packed.numel() if at_root else 0] * self.size()
        row = call.room(sum(recv))
        call.exchange(packed, row, send, recv)
        if at_root:
            call.finish.append(lambda: _operands.cut(row, outputs[0]))
        return call.start(outputs)

    def scatter(self, outputs, inputs, opts=None):
        root, call = opts.rootRank, Call(self, outputs)
        out = _operands.as_bytes(outputs[0], call.finish)
        at_root = self.rank() == root
        whole = torch.cat([_operands.as_bytes(x) for x in inputs[0]]) if at_root else call.room(0)
        send = [out.numel() if at_root else 0] * self.size()
        recv = [out.numel() if i == root else 0 for i in range(self.size())]
        call.exchange(whole, out, send, recv)
        return call.start(outputs)

    def send(self, tensors, to, tag=0):
        call = Call(self, tensors, to)
        packed = _operands.as_bytes(tensors[0])
        mine = call.share(_operands.with_tag(packed, tag) if tag else packed)
        call.add(lambda g: g.send(mine, call.peer))
        return call.start(tensors, ("to", to))

    def recv(self, tensors, source, tag=0):
        """Receives a message. A message carries its tag at its end. Messages between two ranks
        arrive in the order in which they were sent, so another tag is an error."""
        call = Call(self, tensors, source)
        if tag:
            size = tensors[0].numel() * tensors[0].element_size()
            row = call.room(size + _operands.TAG_BYTES)
            mine = call.share(row)
            call.finish.append(lambda: _operands.take_tagged(row, tensors[0], tag, source))
        else:
            mine = call.share(_operands.as_bytes(tensors[0], call.finish))
        call.add(lambda g: g.recv(mine, call.peer))
        with self._receiving:
            return call.start(tensors, ("from", source))

    def recv_anysource(self, tensors, tag=0):
        """Works for host tensors, or with two ranks only: on a GPU each pair of ranks has its own
        group."""
        call = Call(self, tensors)
        if call.side.gpu and self.size() > 2:
            raise NotImplementedError("backend weir: a receive of a GPU's tensor names its source")
        return AnyWork(self, call, tensors, tag)

    def barrier(self, opts=None):
        for side in self._sides.values():
            side.settle()
        call = Call(self, [])
        call.add(lambda g: g.barrier())
        return call.start(None)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Rank 0 names the first rank that does not arrive in time, or all such ranks; the group is
        not broken."""
        seconds = timeout.total_seconds() if timeout is not None else self.seconds
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
        """Waits for a key of the store and returns its value; None if it is not set until
        ``end``."""
        left = max(end - time.monotonic(), 0.001)
        try:
            self._store.wait([key], datetime.timedelta(seconds=left))
        except RuntimeError:  # a timeout; its type depends on the store
            return None
        return self._store.get(key)


def _make(store, rank, size, timeout):
    return ProcessGroupWeir(store, rank, size, timeout)


def register(name="weir"):
    """Registers the backend with PyTorch."""
    if not hasattr(dist.Backend, name.upper()):
        dist.Backend.register_backend(name, _make, devices=["cpu", "cuda"])


def _teach_monitored_barrier():
    """Makes torch.distributed.monitored_barrier accept this backend: PyTorch's checks for gloo."""
    theirs = dist.monitored_barrier

    @functools.wraps(theirs)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        ours = group or dist.distributed_c10d._get_default_group()
        if not isinstance(ours, ProcessGroupWeir):
            return theirs(group, timeout, wait_all_ranks)
        return ours.monitored_barrier(timeout, wait_all_ranks)

    dist.monitored_barrier = dist.distributed_c10d.monitored_barrier = monitored_barrier


if dist.is_available():
    register()
    _teach_monitored_barrier()
