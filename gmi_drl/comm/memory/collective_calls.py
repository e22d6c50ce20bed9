"""The code of a collective call: what a rank calls, as a number that ranks can compare."""

from collections.abc import Sequence

from gmi_drl.comm.membership import Membership

CALL_BITS = 48
"""A code is below 2 to the power of this."""

BARRIER, GATHER, REDUCE, REDUCE_SLOT, REDUCE_STAGED, OPEN = range(6)
"""Kinds of calls. A group that treats all vectors alike uses `REDUCE` for each sum."""

_KINDS = 8
_DOES = (
    "waits at a barrier",
    "gathers {} numbers",
    "reduces {} numbers",
    "reduces {} numbers in its slot",
    "reduces {} numbers beside its bucket",
    "opens the group of plan {:08x}",
)


def call_code(kind: int, numel: int = 0) -> int:
    """The code of a call, below 2^48: its kind, such as `REDUCE`, and how many numbers it is for."""
    return numel * _KINDS + kind


def mismatch(calls: Sequence[int], member: Membership) -> str | None:
    """The two ranks that make different calls, in the same words on every rank; None if all make the same.

    Args:
        calls: The codes of all ranks, in rank order.
        member: This process, which knows the ranks' names.
    """
    other = next((rank for rank, call in enumerate(calls) if call != calls[0]), None)
    if other is None:
        return None
    first, second = (f"{member.name(rank)} {_description(calls[rank])}" for rank in (0, other))
    return f"{first}, {second}: all ranks must make the same calls in the same order"


def _description(call: int) -> str:
    numel, kind = divmod(call, _KINDS)
    return _DOES[kind].format(numel)
