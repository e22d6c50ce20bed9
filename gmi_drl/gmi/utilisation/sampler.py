"""Reads the meters of a layout's GPUs in a thread, so that neither their slowness nor their errors affect a run."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from itertools import zip_longest
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from gmi_drl.gmi.utilisation.readings import Reading, Usage, mean, merged
from gmi_drl.layout.layout import Layout

PERIOD_S = 0.25
"""Time between two readings; GPM needs 100 ms."""
MOST = 4096
"""Number of readings that are kept. If there are more, each two become one."""
END_S = 5.0
"""Deadline for the end of the thread; one that still waits for NVML is abandoned."""

_LOG = logging.getLogger(__name__)


Watched = dict[str, int]
"""Indices of GPUs in the layout, by the UUID of the GPU or of a MIG device of it, as CUDA_VISIBLE_DEVICES names it."""


def watched_gpus(layout: Layout, environment: Callable[[int], Mapping[str, str]]) -> Watched:
    """The GPUs and MIG devices of this host on which the GMIs of a layout run; empty if it has cores only.

    Args:
        layout: The layout of the GMIs.
        environment: The variables of a GMI by its id (`Instances.environment`), of which CUDA_VISIBLE_DEVICES says what
            the GMI sees.
    """
    return {
        uuid: device.index
        for device in layout.devices
        if device.kind == "gpu" and device.node is None  # those of other hosts are not visible here
        for gmi in device.gmis
        if (uuid := environment(gmi.id).get("CUDA_VISIBLE_DEVICES"))
    }


class Sampler:
    """Reads the meters of GPUs for the time of a `with` block. Does nothing without GPUs or without NVML's support.

    Errors of NVML, at the start or later, are ignored: the values are missing.

    Args:
        watched: See `watched_gpus`.
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
        """Means over the readings that began within this time (`time.monotonic`), as far as they have been taken.

        A reading that began earlier is left out completely, since it also covers time before `since_s`.
        """
        with self._lock:
            return mean(one for one in self._readings if since_s <= one.start_s < until_s)

    def forget(self, before_s: float) -> None:
        """Drop the readings that began before this time."""
        with self._lock:
            self._readings = [one for one in self._readings if one.start_s >= before_s]

    def _watch(self) -> None:
        try:
            self._run()
        except Exception as error:  # a traceback would disturb the run's output
            _LOG.warning("the utilisation of the GPUs is no longer read: %s: %s", type(error).__name__, error)

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
    """Why NVML does not report the activity of the SMs (`sm_util`) of a GPU or MIG device here; None if it does.

    This takes a sample: a GPU may have the counters and show them to root only.
    """
    import pynvml

    from gmi_drl.gmi.utilisation.meters import GpmMeter, located

    with ExitStack() as life:
        try:
            pynvml.nvmlInit()
            life.callback(pynvml.nvmlShutdown)
            GpmMeter(*located(uuid), life)
        except pynvml.NVMLError_NotSupported:
            return "it needs a GPU of Hopper or newer: NVML reports the activity of SMs (GPM) of no other"
        except pynvml.NVMLError as error:
            return f"NVML does not show this process the activity of the GPU's SMs (GPM: {error}): try as root"
    return None
