"""The errors of Reverb's interface."""

from types import TracebackType

from gmi_drl.errors import GmiError, UsageError
from gmi_drl.replay.limiters import ReplayTimeoutError


class ReverbError(Exception):
    """The base of the errors that are Reverb's own."""


class DeadlineExceededError(ReverbError):
    """A call was not answered within its time."""


class in_their_words:  # noqa: N801 - used as a function; a class costs a third for each item
    """A context that raises our errors as those that dm-reverb raises.

    Args:
        usage: In the place of `UsageError`.

    Raises:
        DeadlineExceededError: in the place of `ReplayTimeoutError`.
        ReverbError: in the place of any other one.
    """

    __slots__ = ("_usage",)

    def __init__(self, usage: type[Exception] = ValueError) -> None:
        self._usage = usage

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, ReplayTimeoutError):
            raise DeadlineExceededError(str(error)) from error
        if isinstance(error, UsageError):
            raise self._usage(str(error)) from error
        if isinstance(error, GmiError):
            raise ReverbError(str(error)) from error
