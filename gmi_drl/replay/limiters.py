"""Limits on the rates of inserts and samples (Reverb, section 3.4), in plain numbers.

A limiter decides and counts. Its table waits, under the table's lock.
"""

import math
from dataclasses import asdict, dataclass, fields

from gmi_drl.errors import GmiError, UsageError

WAIT_S = 600.0
"""Seconds that an insert, a sample or a stream waits, unless its caller says otherwise."""

_ROUNDING = 1e-6
"""Part of an item by which sums may miss a bound: 81 x 0.1 is 8.1 in numbers that are rounded, too."""


class ReplayTimeoutError(GmiError, TimeoutError):
    """A table could not serve a request within its time. The message has size, counters and what is missing.

    Attributes:
        done: Items that were inserted before; 0 of a sample.
    """

    def __init__(self, message: str, done: int = 0) -> None:
        super().__init__(message)
        self.done = done


@dataclass
class Counters:
    """What has happened to a table since it was made or reset. A table's size is `inserts - deletes`."""

    inserts: int = 0
    samples: int = 0
    deletes: int = 0

    @property
    def size(self) -> int:
        """Items that are there."""
        return self.inserts - self.deletes


class RateLimiter:
    """Holds `inserts * spi - samples` within `[min_diff, max_diff]`, and samples back below `min_size` items.

    Args:
        spi: Samples per insert.
        min_size: Items from which on samples are allowed. Up to it inserts are allowed whatever the ratio is.
        min_diff: No sample lets the difference fall below it.
        max_diff: No insert lets it rise above.

    Raises:
        UsageError: if it could only deadlock, with the numbers.
    """

    def __init__(self, spi: float, min_size: int, min_diff: float = -math.inf, max_diff: float = math.inf) -> None:
        self.spi, self.min_size, self.min_diff, self.max_diff = (
            float(spi),
            int(min_size),
            float(min_diff),
            float(max_diff),
        )
        self.counters = Counters()
        if not spi > 0 or not math.isfinite(spi):
            raise UsageError(f"samples per insert must be above 0, not {spi}")
        if min_size < 1:
            raise UsageError(f"min_size must be 1 at least, not {min_size}")
        width = self.max_diff - self.min_diff
        if not width >= max(1.0, self.spi):
            text = f"the difference may vary by {width:g} (from {min_diff:g} to {max_diff:g})"
            raise UsageError(f"{text}, but one insert or sample changes it by {max(1.0, self.spi):g}: widen the range")
        if self.min_diff > self.spi * self.min_size:
            text = f"min_diff {min_diff:g} is above spi x min_size = {self.spi * self.min_size:g}"
            raise UsageError(f"{text}: neither an insert nor a sample would be allowed at {min_size} items")

    def can_insert(self, count: int) -> bool:
        """Whether `count` items may be inserted now."""
        return self.inserts_allowed(count) >= count

    def can_sample(self, count: int) -> bool:
        """Whether `count` items may be sampled now."""
        return self.samples_allowed(count) >= count

    def inserts_allowed(self, count: int) -> int:
        """How many of `count` items may be inserted now."""
        now = self.counters
        to_min_size = min(count, self.min_size - now.size)
        by_ratio = count
        if math.isfinite(self.max_diff):
            by_ratio = min(count, math.floor((self.max_diff + now.samples) / self.spi + _ROUNDING) - now.inserts)
        return max(to_min_size, by_ratio, 0)

    def samples_allowed(self, count: int) -> int:
        """How many of `count` items may be sampled now."""
        now = self.counters
        if now.size < self.min_size:
            return 0
        if not math.isfinite(self.min_diff):
            return count
        return max(0, min(count, math.floor(now.inserts * self.spi - self.min_diff - now.samples + _ROUNDING)))

    @property
    def most_at_once(self) -> float:
        """Samples that may be allowed at once, at most."""
        return max(self.max_diff, self.spi * self.min_size) - self.min_diff

    def reset(self) -> None:
        """Set all counters to 0."""
        self.counters = Counters()

    def why(self, count: int, what: str) -> str:
        """Why `count` "inserts" or "samples" are refused: size, counters and what is missing."""
        now = self.counters
        text = f"{now.size} items, {now.inserts} inserts, {now.samples} samples, {now.deletes} deletes"
        if what == "samples" and now.size < self.min_size:
            return f"{text}; samples begin at {self.min_size} items, {self.min_size - now.size} are missing"
        diff = now.inserts * self.spi - now.samples
        bound, other = (self.min_diff, "inserts") if what == "samples" else (self.max_diff, "samples")
        after = diff - count if what == "samples" else diff + count * self.spi
        moved = f"{count} {what} would move inserts x {self.spi:g} - samples to {after:g}, past {bound:g}"
        return f"{text}; {moved}: it waits for {other}"

    def state_dict(self) -> dict[str, int]:
        """The counters."""
        return asdict(self.counters)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Take over counters."""
        self.counters = Counters(**{field.name: int(state[field.name]) for field in fields(Counters)})


class SampleToInsertRatio(RateLimiter):
    """Holds the ratio of samples to inserts near `spi`.

    Args:
        spi: Samples per insert.
        min_size: Items from which on samples are allowed.
        error_buffer: How far `inserts * spi - samples` may be from `min_size * spi`, or the pair of its bounds.

    Raises:
        UsageError: if spi is not positive, the range is narrower than 2 x max(1, spi), or it could only deadlock.
    """

    def __init__(self, spi: float, min_size: int, error_buffer: float | tuple[float, float]) -> None:
        if isinstance(error_buffer, int | float):
            offset = spi * min_size
            low, high = offset - error_buffer, offset + error_buffer
        else:
            low, high = error_buffer
        if spi > 0 and high - low < 2 * max(1.0, spi):
            text = f"the error buffer is {high - low:g} wide, from {low:g} to {high:g}"
            raise UsageError(f"{text}: it must be 2 x max(1, spi) = {2 * max(1.0, spi):g} at least")
        super().__init__(spi, min_size, low, high)


class MinSize(RateLimiter):
    """Allows samples from `min_size` items on, and every insert."""

    def __init__(self, min_size: int) -> None:
        super().__init__(1.0, min_size)


class Queue(RateLimiter):
    """Allows inserts while less than `size` items were not sampled, and each item to be sampled once.

    With Fifo selectors and `max_times_sampled=1` the table is a queue.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise UsageError(f"a queue needs room for 1 item at least, not {size}")
        super().__init__(1.0, 1, 0.0, float(size))


class Stack(Queue):
    """The same counts as those of `Queue`. With Lifo selectors and `max_times_sampled=1` the table is a stack."""
