"""CuPy with memory checks: each block of its pools is an allocation of its own, and the pools are emptied at the end."""
import atexit

from memtrace_python import cupy_nvrtc, memory_is_checked, need

PACKAGES, KNOWN = cupy_nvrtc.PACKAGES, cupy_nvrtc.KNOWN


def exact(pool, plain):
    """Returns a pool class that takes each block from its allocator, or from `plain`."""
    class Exact(pool):
        def __init__(self, *args, **named):
            super().__init__(*args, **named)
            given = [a for a in (*args, *named.values()) if callable(a)]
            self.__take = given[0] if given else plain

        def malloc(self, size):
            return self.__take(size)

    return named_as(pool, Exact)


def emptied(pool):
    """Returns a class of pinned memory pools that free their blocks for copies at the end."""
    class Emptied(pool):
        def __init__(self, *args, **named):
            super().__init__(*args, **named)
            atexit.register(self.free_all_blocks)

    return named_as(pool, Emptied)


def named_as(pool, ours):
    ours.__name__, ours.__qualname__, ours.__doc__ = pool.__name__, pool.__qualname__, pool.__doc__
    return ours


def attach(cuda):
    if not memory_is_checked():
        return
    plain = need(cuda, "malloc_async")
    changes = [(name, exact(need(cuda, name), plain)) for name in ("MemoryPool", "MemoryAsyncPool")]
    changes.append(("PinnedMemoryPool", emptied(need(cuda, "PinnedMemoryPool"))))
    for name, pool in changes:  # all or none
        setattr(cuda, name, pool)
