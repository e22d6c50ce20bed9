"""A session: the GMIs of a layout, started once, alive and waiting to be measured."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError, PeerSilentError, UsageError
from gmi_drl.gmi import Claim
from gmi_drl.gmi.inventory import visible_gpus
from gmi_drl.gmi.utilisation import Sampler, Usage, watched_gpus
from gmi_drl.launch.hosts import DeviceOpener
from gmi_drl.launch.job import Job
from gmi_drl.launch.open_layout import opened
from gmi_drl.launch.processes.gmi_processes import FIRST_WORD_S, GMIMessage
from gmi_drl.launch.task_info import task_spec
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.launcher.protocol import Measure, Ready, Report, Stop
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.templates import template_of

Said = TypeVar("Said", Ready, Report)

PATIENCE_S = 120.0
"""How much longer than asked for a measurement may take, if nothing is known of it: then a GMI hangs."""

DISMISSED_S = 10.0
"""Until GMIs that wait for an order must have heard that there is none."""


@dataclass(frozen=True)
class Measured:
    """How a layout ran with `num_env` environments in each GMI, or in the largest where they differ.

    Speed is that of all its GMIs; memory that of the largest, on a GPU no less than an equal share of all that they
    use there, contexts and graphs included; `iteration_s` and `phases` (seconds by name, see
    `phases.PHASES`) are means over the iterations and the GMIs. `relative_error` is the standard error of
    `iteration_s` over `iteration_s`, the largest of the GMIs; 0: not known, as after one iteration. `devices` is how
    busy GPUs were while all iterated. `rows` are what the GMIs have reported, by id, with whatever else probes tell.
    """

    num_env: int
    iterations: int
    iteration_s: float
    steps_per_second: float
    relative_error: float
    memory_bytes: int
    host_bytes: int
    phases: dict[str, float]
    devices: Usage = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()


class Session:
    """Measures one layout, with one number of environments after the other, from its start until it is closed.

    It may be started again when it has been closed. Its logs do not outlive it: an error has the end of one.

    Args:
        layout: What to start. Its GMIs' own `num_env` matter where a measurement says so.
        config: How they train.
        role: A subclass of `roles.probe.Probe`, by location, perhaps one for each GMI by its id; None for the one of
            the layout's template and learner.
        environment: Variables of the GMIs that differ from what the backend gives; None takes one away.

    Attributes:
        compiled_s: What the first calls of the simulator took in the last start.

    Raises:
        UsageError: if nothing is there that could measure the learner.
    """

    def __init__(
        self,
        layout: Layout,
        config: RunConfig,
        *,
        role: str | Mapping[int, str] | None = None,
        environment: Mapping[str, str | None] | None = None,
    ) -> None:
        self.layout, self.config, self.environment = layout, config, environment
        role = role or probe_of(layout, config)
        self.roles = dict.fromkeys((gmi.id for gmi in layout.gmis), role) if isinstance(role, str) else role
        self.bucket_bytes = config.learner.bucket_bytes(task_spec(layout.task or ""))
        self.compiled_s = 0.0
        self._life, self._is_idle = ExitStack(), False

    def start(self, claim: Claim | DeviceOpener) -> None:
        """Start the GMIs.

        Args:
            claim: Of the layout's devices, on which others may live; see `opened`.

        Raises:
            GmiError: when a GMI fails, dies or does not start.
        """
        with ExitStack() as life:
            path = tempfile.mkdtemp(prefix="gmi-drl-probe-")
            life.callback(shutil.rmtree, path, ignore_errors=True)
            folder = RunFolder(Path(path), stays=False)
            folder.create()
            job = Job(self.layout, self.config, folder, self.roles, self.bucket_bytes)
            gmis = opened(claim, job, {}, environment=self.environment)
            self._taken = [0 for _ in visible_gpus()]
            with self._watching_memory():
                self._processes = life.enter_context(gmis)
                self._events = self._processes.events()
                watched = watched_gpus(self.layout, self._processes.instances.environment)
                self._sampler = life.enter_context(Sampler(watched))
                self.compiled_s = max(ready.compiled_s for ready in self._hear(Ready, FIRST_WORD_S))
            self._life, self._is_idle = life.pop_all(), True

    def close(self) -> None:
        """End the GMIs. Where they wait for an order they close their environments first. May be called twice."""
        if self._is_idle:
            self._is_idle = False
            self._dismiss()
        self._life.close()

    def _dismiss(self) -> None:
        """Say stop, and wait until all have heard it."""
        for gmi in self.layout.gmis:
            self._processes.say(gmi.id, Stop())
        deadline = time.monotonic() + DISMISSED_S
        with suppress(GmiError):  # what was measured is measured
            for _ in self._processes.events():
                if time.monotonic() > deadline:
                    return

    def measure(self, num_env: int | None, seconds: float, *, deadline_s: float | None = None) -> Measured:
        """Train for about so many seconds, at least one iteration after the warm-up, and tell how it went.

        Args:
            num_env: Environments of each GMI; None for as many as the layout gives it.
            seconds: Of measuring; making the worlds and warming up come on top.
            deadline_s: When to give a GMI up that has not answered.

        Raises:
            GmiError: when a GMI fails or dies.
            PeerSilentError: when one does not answer by the deadline.
        """
        limit_s = seconds + PATIENCE_S if deadline_s is None else deadline_s
        worlds = {gmi.id: gmi.num_env if num_env is None else num_env for gmi in self.layout.gmis}
        total = sum(worlds.values())
        self._is_idle = False
        self._sampler.forget(time.monotonic())
        with self._watching_memory():
            for gmi_id, some in worlds.items():
                self._processes.say(gmi_id, Measure(some, seconds, some / total))
            rows = [report.row for report in self._hear(Report, limit_s)]
        self._is_idle = True
        iteration_s = max(row["iteration_s"] for row in rows)
        return Measured(
            num_env=max(worlds.values()),
            iterations=rows[0]["iterations"],
            iteration_s=iteration_s,
            steps_per_second=total * self.config.learner.horizon / iteration_s,
            relative_error=max(row["relative_error"] for row in rows),
            memory_bytes=max(*(row["memory_bytes"] for row in rows), share_of_each(self.layout, self._taken)),
            host_bytes=max(row["host_bytes"] for row in rows),
            phases={name: sum(row[name] for row in rows) / len(rows) for name in PHASE_NAMES},
            devices=self._sampler.mean(max(row["began_s"] for row in rows), min(row["ended_s"] for row in rows)),
            rows=rows,
        )

    @contextmanager
    def _watching_memory(self) -> Iterator[None]:
        """Take note of the memory that the GMIs take or give back on each GPU meanwhile, when nobody else may.

        The processes themselves do not know what CUDA takes for its contexts and graphs.
        """
        before = visible_gpus()
        yield
        now = visible_gpus()
        self._taken = [
            taken + new.used_bytes - old.used_bytes for taken, old, new in zip(self._taken, before, now, strict=True)
        ]

    def _hear(self, kind: type[Said], limit_s: float) -> list[Said]:
        """One such word of each GMI, in their order."""
        heard: dict[int, Said] = {}
        deadline = time.monotonic() + limit_s
        for event in self._events:
            if isinstance(event, GMIMessage) and isinstance(event.word, kind):
                heard[event.gmi_id] = event.word
            if len(heard) == len(self.layout.gmis):
                return [heard[gmi.id] for gmi in self.layout.gmis]
            if time.monotonic() > deadline:
                silent = next(gmi.id for gmi in self.layout.gmis if gmi.id not in heard)
                raise PeerSilentError(f"GMI {silent} has not answered within {limit_s:.0f} s")
        raise PeerSilentError("a GMI has ended before it answered")


def probe_of(layout: Layout, config: RunConfig) -> str:
    """The role that measures a layout, by location.

    Raises:
        UsageError: if the learner brings none; see `profiler.measurable`.
    """
    learner = LEARNERS.find(config.learner.kind)
    probe = template_of(layout).probe(learner)
    if probe is None:
        raise UsageError(f"the learner {learner.name} brings no probe, so that nothing can measure it")
    return probe


def share_of_each(layout: Layout, taken: Sequence[int]) -> int:
    """Most bytes of a GPU for each of its GMIs, of what they have `taken` together on each GPU; 0 without GPUs."""
    gpus = [device for device in layout.devices if device.kind == "gpu"]
    return max((taken[gpu.index] // len(gpu.gmis) for gpu in gpus), default=0)
