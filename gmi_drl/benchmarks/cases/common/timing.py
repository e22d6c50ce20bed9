"""How long calls take."""

import time
from collections.abc import Callable

from gmi_drl.benchmarks.case import Sample


def mean_seconds(call: Callable[[], object], count: int) -> Sample:
    """Call `count` times. Returns the mean seconds of a call."""
    began = time.perf_counter()
    for _ in range(count):
        call()
    return Sample((time.perf_counter() - began) / count)
