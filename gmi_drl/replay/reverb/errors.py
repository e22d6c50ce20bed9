"""The errors of Reverb's interface."""

from collections.abc import Iterator
from contextlib import contextmanager

from gmi_drl.errors import GmiError, UsageError
from gmi_drl.replay.limiters import ReplayTimeoutError


class ReverbError(Exception):
    """The base of the errors that are Reverb's own."""


class DeadlineExceededError(ReverbError):
    """A call was not answered within its time."""


@contextmanager
def in_their_words(usage: type[Exception] = ValueError) -> Iterator[None]:
    """Raise our errors as those that dm-reverb raises.

    Args:
        usage: In the place of `UsageError`.

    Raises:
        DeadlineExceededError: in the place of `ReplayTimeoutError`.
        ReverbError: in the place of any other one.
    """
    try:
        yield
    except ReplayTimeoutError as error:
        raise DeadlineExceededError(str(error)) from error
    except UsageError as error:
        raise usage(str(error)) from error
    except GmiError as error:
        raise ReverbError(str(error)) from error
