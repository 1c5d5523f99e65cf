"""``torch.npu.NPUGraph``: captures PyTorch's operators in a graph of weir.

Each called operator of PyTorch becomes a host call of a :class:`weir.Graph` on the current stream.
Operators are ordered by their streams and by the memory that they read and write; weir adds the
necessary waits between streams. A replay runs the compiled plan and waits for it, as PyTorch may
read the results on the host next.

During the capture each operator runs once to find its shapes. Changes to memory that existed before
the capture are undone at its end.
"""

import contextlib
import gc
import threading

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import weir

from .._torch.kernels import WORDS

__all__ = [
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_TOKEN = (weir.float32, (0,))  # an empty result of a host call, used for ordering only
# Operators whose results are uninitialised.
_EMPTY = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty",
          "aten::new_empty_strided"}  # fmt: skip
_SYNCS = {"aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::equal"}

_now = threading.local()  # .recorder of this thread


def _tensors(tree):
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _storage(tensor):
    return tensor.untyped_storage()


class _Record:
    """One call: its operator and arguments, which may be replaced, and the memory of its
    results."""

    def __init__(self, function, args, kwargs, fresh):
        self.function, self.args, self.kwargs = function, args, kwargs
        self.fresh = fresh  # [(index of the result, its tensor)] of results that are no views of arguments

    def __call__(self, in_addresses=(), out_addresses=()):
        with torch.no_grad():
            made = _tensors(WORDS.get(self.function, self.function)(*self.args, **self.kwargs))
            for which, tensor in self.fresh:
                tensor.copy_(made[which])


class _Recorder(TorchDispatchMode):
    """Records the called operators; ``records`` are (record, stream, reads, writes)."""

    def __init__(self):
        super().__init__()
        self.records, self.groups = [], []
        self._made, self._before = {}, {}  # storages by address; _made keeps its storages alive

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = function._schema.name
        if name in _SYNCS:
            raise RuntimeError(
                f"{name} needs a value, but while a graph is captured nothing is computed"
            )
        reads = {_storage(t)._cdata: _storage(t) for t in _tensors((args, kwargs))}
        writes = {_storage(t)._cdata: _storage(t) for t in self._changed(function, args, kwargs)}
        for address, storage in writes.items():
            if address not in self._made and address not in self._before:
                self._before[address] = storage, storage.clone()
        made = function(*args, **kwargs)
        results = _tensors(made)
        fresh = [(i, t) for i, t in enumerate(results) if _storage(t)._cdata not in reads]
        self._made.update((_storage(t)._cdata, _storage(t)) for _, t in fresh)
        if (fresh and name not in _EMPTY) or writes or not results:
            if not name.startswith("weir::scope"):
                record = _Record(function, args, kwargs, fresh)
                touched = {*writes, *(_storage(t)._cdata for _, t in fresh)}
                self.records.append((record, weir.current_stream(), set(reads), touched))
        return made

    @staticmethod
    def _changed(function, args, kwargs):
        found = []
        for i, argument in enumerate(function._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                found += _tensors(args[i] if i < len(args) else kwargs.get(argument.name))
        return found

    def put_back(self):
        """Restores memory that existed before the capture."""
        with torch.no_grad():
            for storage, before in self._before.values():
                storage.copy_(before)


def _compile(records):
    """Compiles a graph that runs the records, ordered by their streams and by the memory that they
    access. Returns the graph and its plan."""
    graph = weir.Graph()
    tokens = [graph.input("start", (1,))]  # one per call so far
    last = {}  # {stream: its last call}
    written, read = {}, {}  # {storage: (stream, call)} and {storage: {stream: call}} since then
    home = weir.current_stream()

    def add(function, name, after):
        tokens.append(
            weir._C.host_call(name, function, [tokens[i] for i in after or [0]], [_TOKEN])[0]
        )
        return len(tokens) - 1

    with graph:
        for record, stream, reads, writes in records:
            earlier = [(stream, last.get(stream, 0))]
            earlier += [written[address] for address in reads | writes if address in written]
            for address in writes:
                earlier += read.pop(address, {}).items()
            after = {}  # the last call of each stream suffices
            for other, call in earlier:
                after[other] = max(after.get(other, 0), call)
            place = contextlib.nullcontext()
            if stream != home:
                place = weir.scope.npu_stream_switch(stream.name, stream.priority)
            with place:
                call = add(record, record.function._schema.name, after.values())
            last[stream] = call
            for address in reads:
                read.setdefault(address, {})[stream] = call
            for address in writes:
                written[address] = stream, call
        end = add(lambda *addresses: None, "joined", last.values())
    graph.output("end", tokens[end])
    return graph, graph.compile()


# ---- torch.npu's names ----


class NPUGraph:
    """The operators called between ``capture_begin`` and ``capture_end``; a replay runs them again
    on the same memory."""

    def __init__(self, keep_graph=False):
        self._plan = self._recorder = self.graph = None
        self._pool = graph_pool_handle()

    def capture_begin(self, pool=None, capture_error_mode="global", **options):
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(
                "capture_error_mode must be 'global', 'thread_local' or 'relaxed', not "
                f"{capture_error_mode!r}"
            )
        if is_current_stream_capturing():
            raise RuntimeError("a graph is being captured already")
        self.reset()
        self._pool = pool or self._pool
        self._random = torch.get_rng_state()
        self._recorder = _now.recorder = _Recorder()
        self._recorder.__enter__()

    def capture_end(self):
        if self._recorder is None or getattr(_now, "recorder", None) is not self._recorder:
            raise RuntimeError("capture_end without capture_begin in this thread")
        recorder, self._recorder, _now.recorder = self._recorder, None, None
        recorder.__exit__(None, None, None)
        recorder.put_back()
        torch.set_rng_state(self._random)
        self.graph, self._plan = _compile(recorder.records)
        self._start = weir.ones((1,))
        self._start.synchronize()  # a replay may be on another stream
        if recorder.groups:
            raise RuntimeError("graph_task_group_begin without graph_task_group_end")

    def abandon(self):
        """Ends a failed capture; the graph stays empty."""
        recorder, self._recorder, _now.recorder = self._recorder, None, None
        recorder.__exit__(None, None, None)
        recorder.put_back()

    def replay(self):
        if self._plan is None:
            raise RuntimeError("replay of a graph that was not captured")
        self._plan(self._start)
        weir.current_stream().synchronize()

    def reset(self):
        self._plan = self.graph = None

    def pool(self):
        return self._pool

    def instantiate(self):
        """Does nothing: the graph is compiled when its capture ends."""

    def enable_debug_mode(self):
        """Does nothing: a graph can always be dumped."""

    def debug_dump(self, debug_path):
        """Writes the graph in weir's format."""
        if self.graph is None:
            raise RuntimeError("debug_dump of a graph that was not captured")
        with open(debug_path, "w") as file:
            file.write(self.graph.dump())


class graph:
    """``with graph(g):`` captures the operators inside, on a new stream unless one is given."""

    default_capture_stream = None

    def __init__(self, npu_graph, pool=None, stream=None, capture_error_mode="global", **options):
        if not isinstance(npu_graph, NPUGraph):
            raise TypeError(f"graph() captures a NPUGraph, not a {type(npu_graph).__name__}")
        if stream is None:
            stream = graph.default_capture_stream
            if stream is None or stream.stream.device is not weir.get_device():
                stream = graph.default_capture_stream = weir.npu.Stream()
        self.npu_graph, self._begin = npu_graph, (pool, capture_error_mode)
        self._on = weir.npu.stream(stream)

    def __enter__(self):
        weir.synchronize()
        gc.collect()
        weir.npu.empty_cache()
        self._on.__enter__()
        try:
            self.npu_graph.capture_begin(*self._begin)
        except BaseException:
            self._on.__exit__()
            raise

    def __exit__(self, kind, *exc):
        try:
            if kind is None:
                self.npu_graph.capture_end()
            else:
                self.npu_graph.abandon()
        finally:
            self._on.__exit__()


def is_current_stream_capturing():
    """Whether a graph is being captured in this thread."""
    return getattr(_now, "recorder", None) is not None and getattr(_now, "updated", None) is None


_pools = 0


def graph_pool_handle():
    """An identifier for a shared memory pool; not used, as each graph has its own memory."""
    global _pools
    _pools += 1
    return 0, _pools


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False,
                           pool=None):  # fmt: skip
    """Returns the callables unchanged: a graph would save launches, which the host does not
    have."""
    return callables


# ---- calls in a captured graph whose arguments can be updated ----


def _recorder_of(function):
    if getattr(_now, "recorder", None) is None:
        raise RuntimeError(f"{function}: no graph is being captured in this thread")
    return _now.recorder


def graph_task_group_begin(stream):
    """Begins a group of calls whose arguments can be updated in the captured graph."""
    recorder = _recorder_of("graph_task_group_begin")
    recorder.groups.append(len(recorder.records))


def graph_task_group_end(stream):
    """Returns the handle for graph_task_update_begin."""
    recorder = _recorder_of("graph_task_group_end")
    if not recorder.groups:
        raise RuntimeError("graph_task_group_end without graph_task_group_begin")
    return [record for record, *_ in recorder.records[recorder.groups.pop() :]]


def graph_task_update_begin(stream, handle):
    """Calls from now on, until the end, replace the calls of the group."""
    if is_current_stream_capturing():
        raise RuntimeError("graph_task_update_begin: a graph is being captured")
    _now.recorder, _now.updated = _Recorder(), handle
    _now.recorder.__enter__()


def graph_task_update_end(stream):
    """The captured graph uses the new arguments from its next replay on."""
    recorder, handle = _recorder_of("graph_task_update_end"), getattr(_now, "updated", None)
    if handle is None:
        raise RuntimeError("graph_task_update_end without graph_task_update_begin")
    _now.recorder = _now.updated = None
    recorder.__exit__(None, None, None)
    recorder.put_back()
    new = [record for record, *_ in recorder.records]
    if [r.function for r in new] != [r.function for r in handle]:
        raise RuntimeError(
            "graph_task_update_end: the group has the operators "
            f"{[str(r.function) for r in handle]}, and called were {[str(r.function) for r in new]}"
        )
    for old, record in zip(handle, new):
        old.args, old.kwargs = record.args, record.kwargs
