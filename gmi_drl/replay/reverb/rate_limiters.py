"""When inserts and samples are allowed: the rate limiters of Reverb by their names (Reverb, section 3.4)."""

import sys

from gmi_drl.replay import limiters
from gmi_drl.replay.reverb.errors import in_their_words


class RateLimiter:
    """Settings of a limiter; each table makes one of its own.

    Args:
        samples_per_insert: Above 0.
        min_size_to_sample: Items from which on samples are allowed.
        min_diff: No sample lets inserts x samples_per_insert - samples fall below it.
        max_diff: No insert lets it rise above.

    Raises:
        ValueError: if it could only deadlock.
    """

    def __init__(self, samples_per_insert: float, min_size_to_sample: int, min_diff: float, max_diff: float) -> None:
        self.samples_per_insert, self.min_size_to_sample = float(samples_per_insert), int(min_size_to_sample)
        self.min_diff, self.max_diff = float(min_diff), float(max_diff)
        self.make()

    def make(self) -> limiters.RateLimiter:
        """A limiter with these settings, whose counts are 0."""
        most = sys.float_info.max
        low = self.min_diff if self.min_diff > -most else -float("inf")
        high = self.max_diff if self.max_diff < most else float("inf")
        with in_their_words():
            return limiters.RateLimiter(self.samples_per_insert, self.min_size_to_sample, low, high)

    def __repr__(self) -> str:
        text = f"samples_per_insert={self.samples_per_insert}, min_size_to_sample={self.min_size_to_sample}"
        return f"RateLimiter({text}, min_diff={self.min_diff}, max_diff={self.max_diff})"


class MinSize(RateLimiter):
    """Allows samples from `min_size_to_sample` items on, and every insert."""

    def __init__(self, min_size_to_sample: int) -> None:
        super().__init__(1.0, min_size_to_sample, -sys.float_info.max, sys.float_info.max)


class SampleToInsertRatio(RateLimiter):
    """Holds the ratio of samples to inserts near `samples_per_insert`.

    Args:
        samples_per_insert: Above 0.
        min_size_to_sample: Items from which on samples are allowed.
        error_buffer: How far inserts x samples_per_insert - samples may be from min_size_to_sample x
            samples_per_insert, or the pair of its bounds.

    Raises:
        ValueError: if the range is narrower than 2 x max(1, samples_per_insert), or it could only deadlock.
    """

    def __init__(
        self, samples_per_insert: float, min_size_to_sample: int, error_buffer: float | tuple[float, float]
    ) -> None:
        with in_their_words():
            made = limiters.SampleToInsertRatio(samples_per_insert, min_size_to_sample, error_buffer)
        super().__init__(samples_per_insert, min_size_to_sample, made.min_diff, made.max_diff)


class Queue(RateLimiter):
    """Lets each item be sampled once, and inserts up to `size` that were not. `Table.queue` has it."""

    def __init__(self, size: int) -> None:
        super().__init__(1.0, 1, 0.0, size)


class Stack(Queue):
    """The same counts as those of `Queue`. `Table.stack` has it."""
