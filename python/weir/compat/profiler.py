"""``torch_npu.profiler`` by weir's trace, which contains the operators on weir's device. Options
for more data are accepted without effect."""

import enum
import os
import socket
import time

import weir

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "analyse",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    CPU = "CPU"
    NPU = "NPU"


class ProfilerAction(enum.Enum):
    """The action for a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerLevel(enum.Enum):
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


AiCMetrics = enum.Enum(
    "AiCMetrics",
    "PipeUtilization ArithmeticUtilization Memory MemoryL0 MemoryUB ResourceConflictRatio L2Cache "
    "MemoryAccess AiCoreNone",
)
ExportType = enum.Enum("ExportType", "Text Db")
HostSystem = enum.Enum("HostSystem", "CPU MEM DISK NETWORK OSRT NUMA")


class _ExperimentalConfig:
    """Hardware counters, which weir's devices lack."""

    def __init__(self, **options):
        vars(self).update(options)


def supported_activities():
    return set(ProfilerActivity)


def supported_profiler_level():
    return set(ProfilerLevel)


def supported_ai_core_metrics():
    return set(AiCMetrics)


def supported_export_type():
    return set(ExportType)


def schedule(*, wait, active, warmup=0, repeat=0, skip_first=0, skip_first_wait=0):
    """Maps steps to actions. After ``skip_first`` steps, each cycle has ``wait`` idle steps,
    ``warmup`` steps and ``active`` recorded steps. ``repeat`` is the number of cycles; 0 for no
    limit."""
    cycle = wait + warmup + active
    if min(wait, warmup, skip_first, repeat) < 0 or active < 1:
        raise ValueError("schedule: active must be at least 1, and no other number negative")

    def action(step):
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        step += wait if skip_first_wait else 0
        if repeat and step >= repeat * cycle:
            return ProfilerAction.NONE
        at = step % cycle - wait
        if at < 0:
            return ProfilerAction.NONE
        if at < warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == warmup + active - 1 else ProfilerAction.RECORD

    return action


def _record_all(step):
    return ProfilerAction.RECORD


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Records the steps that the schedule selects, or all without a schedule. ``on_trace_ready`` is
    called with the profile at the end of each recording. ``trace`` is the last weir.trace."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, **options):
        self._action, self._ready = schedule or _record_all, on_trace_ready
        self.step_num, self.trace, self._running = 0, None, None

    def start(self):
        self._turn(self._action(self.step_num))

    def stop(self):
        self._save()

    def step(self):
        """Ends a step and begins the next."""
        ended = self._action(self.step_num)
        self.step_num += 1
        if ended is ProfilerAction.RECORD_AND_SAVE:
            self._save()
        self._turn(self._action(self.step_num))

    def _turn(self, action):
        if action in _RECORDS and self._running is None:
            if weir._C.trace_running():
                raise RuntimeError("a trace is being recorded already (--trace of weir.compat?)")
            self._running = weir.trace()
            self._running.__enter__()
        elif action not in _RECORDS:
            self._save()

    def _save(self):
        if self._running is None:
            return
        self._running.__exit__(None)
        self.trace, self._running = self._running, None
        if self._ready:
            self._ready(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()

    def export_chrome_trace(self, output_path):
        """Writes the last recording for chrome://tracing or Perfetto."""
        if self.trace is None:
            raise RuntimeError("nothing was recorded yet")
        self.trace.write(output_path)

    def add_metadata(self, key, value):
        """Accepted without effect: weir's timeline has no field for it."""

    add_metadata_json = add_metadata

    def events(self):
        """The operators of the last recording."""
        return self.trace.ops if self.trace else []


def tensorboard_trace_handler(dir_name=None, worker_name=None, analyse_flag=True, **options):
    """Returns a function for ``on_trace_ready`` that writes trace_view.json to a subfolder of
    ``dir_name``."""

    def write(done):
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        folder = f"{name}_{time.strftime('%Y%m%d%H%M%S')}_{time.time_ns() % 10**9:09d}_ascend_pt"
        path = os.path.join(dir_name or ".", folder, "ASCEND_PROFILER_OUTPUT")
        os.makedirs(path)
        done.export_chrome_trace(os.path.join(path, "trace_view.json"))

    return write


def analyse(profiler_path="", **options):
    """Does nothing: the handler's files need no analysis."""
