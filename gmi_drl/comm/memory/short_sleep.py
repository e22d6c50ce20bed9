"""Sleeping on descriptors for parts of a millisecond: the polls of Python's `select` round up to whole ones."""

import ctypes
from collections.abc import Sequence
from select import POLLIN


class _Polled(ctypes.Structure):
    """`struct pollfd`."""

    _fields_ = (("descriptor", ctypes.c_int), ("events", ctypes.c_short), ("found", ctypes.c_short))


class _Time(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_ppoll = ctypes.CDLL(None).ppoll  # `select.select` is as precise, but takes no descriptor beyond 1023


def sleep_until_readable(descriptors: Sequence[int], seconds: float) -> None:
    """Sleep until one of the descriptors can be read, at most `seconds`, not below 0. A signal may end it earlier."""
    seconds = max(0.0, seconds)
    polled = (_Polled * len(descriptors))(*(_Polled(descriptor, POLLIN) for descriptor in descriptors))
    most = _Time(int(seconds), int(seconds % 1 * 1e9))
    _ppoll(polled, ctypes.c_ulong(len(descriptors)), ctypes.byref(most), None)
