"""``mindspore.runtime``: settings of MindSpore's threads. weir's devices manage their own threads,
so these functions only check their arguments."""


def _positive(function, name, value):
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"For '{function}', the argument '{name}' should be int, but got {type(value)}.")
    if value <= 0:
        raise ValueError(f"For '{function}', the argument '{name}' must be positive, not {value}.")


def launch_blocking():
    """Would make operators synchronous, to find errors; weir's errors name their operator
    anyway."""


def dispatch_threads_num(threads_num):
    """How many threads dispatch operators."""
    _positive("dispatch_threads_num", "threads_num", threads_num)


def set_cpu_affinity(enable_affinity, affinity_cpu_list=None):
    """Which processors the threads run on."""
    if not isinstance(enable_affinity, bool):
        raise TypeError(
            f"For 'set_cpu_affinity', the argument 'enable_affinity' should be bool, but got "
            f"{type(enable_affinity)}."
        )
    if affinity_cpu_list is not None and not isinstance(affinity_cpu_list, (dict, list)):
        raise TypeError(
            f"For 'set_cpu_affinity', the argument 'affinity_cpu_list' should be dict or list, but "
            f"got {type(affinity_cpu_list)}."
        )


def set_kernel_launch_group(thread_num=2, kernel_group_num=8):
    """How many threads launch operators, and in how many groups."""
    _positive("set_kernel_launch_group", "thread_num", thread_num)
    _positive("set_kernel_launch_group", "kernel_group_num", kernel_group_num)
    if kernel_group_num % thread_num:
        raise ValueError(
            f"For 'set_kernel_launch_group', 'kernel_group_num' {kernel_group_num} must be a multiple "
            f"of 'thread_num' {thread_num}."
        )
