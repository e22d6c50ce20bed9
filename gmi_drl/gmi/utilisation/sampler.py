"""Reads the meters of GPUs in a thread, so that neither their slowness nor their troubles are those of a run."""

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from itertools import zip_longest
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from gmi_drl.gmi.utilisation.readings import Reading, Usage, mean, merged

PERIOD_S = 0.25
"""Between two readings; GPM needs 100 ms."""
MOST = 4096
"""Readings that are kept; when they are more, two at a time become one."""
END_S = 5.0  # until a thread that waits for NVML is left alone

_LOG = logging.getLogger(__name__)


class Sampler:
    """Watches GPUs for the time of a `with` block. Without GPUs, or where NVML tells nothing, it costs nothing.

    NVML's troubles, at the beginning or later, are no errors here: what it does not tell is missing.

    Args:
        watched: See `watched.watched_gpus`.
    """

    def __init__(self, watched: Mapping[str, int]) -> None:
        self._watched = watched
        self._readings: list[Reading] = []
        self._lock, self._ending = Lock(), Event()
        self._thread: Thread | None = None

    def __enter__(self) -> Self:
        if self._watched:
            self._thread = Thread(target=self._watch, name="utilisation", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join(END_S)

    def mean(self, since_s: float, until_s: float) -> Usage:
        """Means over the readings that lie within this time (`time.monotonic`), as far as they have been taken.

        A reading that began before is left out whole, so that nothing of what was before is in it.
        """
        with self._lock:
            return mean(one for one in self._readings if since_s <= one.start_s < until_s)

    def forget(self, before_s: float) -> None:
        """Let go of the readings that began before this time."""
        with self._lock:
            self._readings = [one for one in self._readings if one.start_s >= before_s]

    def _watch(self) -> None:
        try:
            self._run()
        except Exception as error:  # else it would end in a traceback, in the middle of what a run prints
            _LOG.warning("how busy the GPUs are is no longer read: %s: %s", type(error).__name__, error)

    def _run(self) -> None:
        import pynvml

        with ExitStack() as life, suppress(pynvml.NVMLError):
            from gmi_drl.gmi.utilisation.meters import meters_of

            pynvml.nvmlInit()
            life.callback(pynvml.nvmlShutdown)
            meters = meters_of(self._watched, life)
            before_s = time.monotonic()
            while meters and not self._ending.wait(PERIOD_S):
                usage: Usage = {}
                for device, meter in meters:
                    with suppress(pynvml.NVMLError):
                        usage.setdefault(device, {}).update(meter())
                now_s = time.monotonic()
                self._keep(Reading(before_s, now_s, usage))
                before_s = now_s

    def _keep(self, reading: Reading) -> None:
        with self._lock:
            self._readings.append(reading)
            if len(self._readings) > MOST:
                pairs = zip_longest(self._readings[::2], self._readings[1::2])
                self._readings = [merged(first, second) if second else first for first, second in pairs]


def gpm_obstacle(uuid: str) -> str | None:
    """Why NVML does not tell this process the activity of the SMs (`sm_util`) of a GPU or MIG device; None if it does.

    A sample is taken: GPUs that have the counters may show them to root alone.
    """
    import pynvml

    from gmi_drl.gmi.utilisation.meters import GpmMeter, located

    with ExitStack() as life:
        try:
            pynvml.nvmlInit()
            life.callback(pynvml.nvmlShutdown)
            GpmMeter(*located(uuid), life)
        except pynvml.NVMLError_NotSupported:
            return "it needs a GPU of Hopper or newer, of whose SMs NVML tells the activity (GPM)"
        except pynvml.NVMLError as error:
            return f"NVML does not show this process the activity of the GPU's SMs (GPM: {error}): try as root"
    return None
