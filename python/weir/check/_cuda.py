"""Feeds `_order.Watcher` from a program that uses torch.cuda. PyTorch calls back for streams,
events, waits and the allocator (torch.cuda._gpu_trace), and a dispatch mode sees each operator."""

from __future__ import annotations

import re
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._order import Finding, Region, Watcher

# Two strided views are compared byte by byte if they span at most this many bytes.
MOST_COMPARED = 1 << 24
_METADATA_ONLY = re.compile(r"aten::(new_|.*_like$)")
_SKIPPED_FOLDERS = ("/torch/", "/weir/check/", "/weir/compat/run.py", "<frozen ")
_DEEPEST = 24


def stack_now() -> tuple[tuple[str, int, str], ...]:
    """Frames of the program, the innermost first, without those of PyTorch and of this package."""
    frames, frame = [], sys._getframe(1)
    while frame is not None and len(frames) < _DEEPEST:
        code = frame.f_code
        if not any(folder in code.co_filename for folder in _SKIPPED_FOLDERS):
            frames.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(frames)


def views_overlap(a, b) -> bool:
    """Whether two views (offset in bytes, sizes, strides in bytes, bytes of an element) of one
    storage share a byte. True for views that span too many bytes to compare."""
    (oa, sizes_a, strides_a, ea), (ob, sizes_b, strides_b, eb) = a, b
    ends = [o + sum((n - 1) * s for n, s in zip(sizes, strides)) + e
            for o, sizes, strides, e in ((oa, sizes_a, strides_a, ea), (ob, sizes_b, strides_b, eb))]
    low, high = max(oa, ob), min(ends)
    if low >= high:
        return False
    if max(ends) - min(oa, ob) > MOST_COMPARED:
        return True
    first = min(oa, ob)
    marks = torch.zeros(max(ends) - first, dtype=torch.bool)
    marks.as_strided((*sizes_a, ea), (*strides_a, 1), oa - first).fill_(True)
    return bool(marks.as_strided((*sizes_b, eb), (*strides_b, 1), ob - first).any())


def _region(tensor, base):
    """The bytes of a tensor, with its view if the bytes have gaps."""
    element = tensor.element_size()
    start = base + tensor.storage_offset() * element
    end = start + (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1) * element
    if end - start == tensor.numel() * element:
        return Region(start, end)
    return Region(start, end, (tensor.storage_offset() * element, tuple(tensor.shape),
                               tuple(s * element for s in tensor.stride()), element))


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


class Arguments:
    """The memory that an operator reads and writes, according to its schema and its arguments."""

    def __init__(self, is_device):
        self.is_device = is_device
        self.uses = {}  # (base, region) -> [bytes, writes, names, tensor]

    def add(self, value, writes, name):
        for tensor in _tensors(value):
            if not self.is_device(tensor) or tensor.layout is not torch.strided or not tensor.numel():
                continue
            storage = tensor.untyped_storage()
            base = storage.data_ptr()
            use = self.uses.setdefault((base, _region(tensor, base)), [
                storage.nbytes(), False, [],
                f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"])
            use[1] |= writes
            use[2].append(name)

    def inputs(self, schema, args, kwargs):
        metadata_only = bool(_METADATA_ONLY.match(schema.name))
        values = dict(zip((a.name for a in schema.arguments), args)) | kwargs
        for argument in schema.arguments:
            if argument.name not in values:
                continue
            alias = argument.alias_info
            writes = alias is not None and alias.is_write
            # Views and operators that only use shape and type read nothing.
            if writes or (alias is None and not metadata_only):
                self.add(values[argument.name], writes, argument.name)

    def outputs(self, schema, result):
        if "empty" in schema.name:
            return  # no memory is written
        results = result if len(schema.returns) > 1 else (result,)
        for returned, value in zip(schema.returns, results):
            if returned.alias_info is None:
                self.add(value, True, "its result")

    def accesses(self):
        for (base, region), (size, writes, names, tensor) in self.uses.items():
            yield base, size, region, writes, list(dict.fromkeys(names)), tensor


class CudaMode(TorchDispatchMode):
    """Sees every operator of the program. `found` is called with each finding."""

    def __init__(self, watcher, found, is_device=None, current_stream=None):
        super().__init__()
        self.watcher, self.found = watcher, found
        self.is_device = is_device or (lambda t: t.is_cuda)
        self.current_stream = current_stream or (lambda: torch.cuda.current_stream().cuda_stream)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten.record_stream.default:
            tensor, stream = args
            if self.is_device(tensor):
                number = getattr(stream, "cuda_stream", None)
                if number is None:  # a torch.Stream
                    number = torch.cuda.Stream(stream_id=stream.stream_id, device_index=stream.device_index,
                                               device_type=stream.device_type).cuda_stream
                self.watcher.stream_recorded(tensor.untyped_storage().data_ptr(), number)
            return func(*args, **kwargs)
        arguments = Arguments(self.is_device)
        arguments.inputs(func._schema, args, kwargs)
        result = func(*args, **kwargs)
        arguments.outputs(func._schema, result)
        if arguments.uses:
            name = func._schema.name + (f".{func._schema.overload_name}" if func._schema.overload_name else "")
            for finding in self.watcher.launched(self.current_stream(), name, arguments.accesses(), stack_now()):
                self.found(finding)
        return result


def listen(watcher: Watcher) -> bool:
    """Registers PyTorch's callbacks. False if this PyTorch has no CUDA."""
    if not hasattr(torch._C, "_activate_gpu_trace") or not torch.backends.cuda.is_built():
        return False
    import torch.cuda._gpu_trace as hooks

    def current():
        return torch.cuda.current_stream().cuda_stream

    torch._C._activate_gpu_trace()
    hooks.register_callback_for_stream_creation(watcher.stream_created)
    hooks.register_callback_for_event_creation(watcher.event_created)
    hooks.register_callback_for_event_deletion(watcher.event_deleted)
    hooks.register_callback_for_event_record(watcher.event_recorded)
    hooks.register_callback_for_event_wait(watcher.event_waited)
    hooks.register_callback_for_event_synchronization(watcher.event_synchronized)
    hooks.register_callback_for_stream_synchronization(watcher.stream_synchronized)
    hooks.register_callback_for_device_synchronization(watcher.device_synchronized)
    hooks.register_callback_for_memory_allocation(lambda p: watcher.allocated(p, current(), stack_now()))
    hooks.register_callback_for_memory_deallocation(lambda p: watcher.deallocated(p, stack_now()))
    empty_cache = torch.cuda.empty_cache

    def emptied():
        empty_cache()
        watcher.cache_emptied()

    torch.cuda.empty_cache = emptied
    return True


class Report:
    """Collects findings; keeps one per pair of lines."""

    def __init__(self):
        self.findings: dict[tuple, Finding] = {}

    def add(self, finding: Finding) -> bool:
        """Adds a finding. True if it is new."""
        key = (finding.kind, finding.first.stack[:1], finding.second.stack[:1],
               finding.first.operator, finding.second.operator)
        if key in self.findings:
            return False
        self.findings[key] = finding
        return True

    def as_list(self):
        def place(stack):
            return [{"file": f, "line": n, "function": name} for f, n, name in stack]

        def access(a):
            return {"operator": a.operator, "stream": a.stream, "writes": a.writes,
                    "arguments": list(a.arguments), "tensor": a.tensor, "stack": place(a.stack)}

        return [{"kind": f.kind, "first": access(f.first), "second": access(f.second),
                 "allocated": place(f.allocated), "freed": place(f.freed)} for f in self.findings.values()]

    def __str__(self):
        return "\n\n".join(_tell(i + 1, f) for i, f in enumerate(self.findings.values()))


def _stream(number):
    return "the default stream" if number == 0 else f"stream {number:#x}"


def _lines(stack):
    return [f"      {file}:{line} in {function}" for file, line, function in stack[:6]] or ["      (no line known)"]


def _access(a):
    verb = "writes" if a.writes else "reads"
    return f"{a.operator} on {_stream(a.stream)} {verb} {' and '.join(a.arguments) or 'memory'}, {a.tensor or 'a tensor'}"


def _tell(number, f):
    if f.kind == "race":
        head = f"race {number}: nothing orders two uses of the same memory"
        cure = (f"  missing: let {_stream(f.second.stream)} wait for {_stream(f.first.stream)} between the two, "
                "with wait_stream or an event")
    else:
        head = f"use after free {number}: memory was given to another tensor while a stream still used it"
        cure = (f"  missing: tensor.record_stream for {_stream(f.first.stream)} before the tensor is freed, or a wait of "
                f"{_stream(f.second.stream)} for {_stream(f.first.stream)}")
    text = [head, f"    {_access(f.first)}", *_lines(f.first.stack), f"    {_access(f.second)}", *_lines(f.second.stack)]
    for what, stack in (("freed at", f.freed), ("the memory was allocated at", f.allocated)):
        if stack:
            text += [f"    {what}", *_lines(stack[:2])]
    return "\n".join([*text, cure])
