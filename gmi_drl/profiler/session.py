"""A session: the GMIs of a layout, started once and measured several times."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError, PeerSilentError, UsageError
from gmi_drl.gmi import Claim
from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.gmi.inventory.core_load import CoreLoad
from gmi_drl.gmi.utilisation import Sampler, Usage, watched_gpus
from gmi_drl.launch.hosts import DeviceOpener
from gmi_drl.launch.job import Job
from gmi_drl.launch.open_layout import opened
from gmi_drl.launch.processes.events import GMIMessage
from gmi_drl.launch.processes.gmi_processes import FIRST_MESSAGE_S
from gmi_drl.launch.processes.temporary_folder import temporary_folder
from gmi_drl.launch.task_info import task_spec
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.launcher.protocol import Measure, Ready, Report, Stop
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.scheduler.profile import is_disturbed
from gmi_drl.templates import template_of

Message = TypeVar("Message", Ready, Report)

PATIENCE_S = 120.0
"""How much longer than requested a measurement may take by default. After that a GMI counts as hung."""

STOP_S = 10.0
"""How long idle GMIs may take to end after they were told to stop."""


@dataclass(frozen=True)
class Measured:
    """One measurement of a layout with `num_env` environments in each GMI (in the largest, if they differ).

    Args:
        num_env: See above.
        iterations: That were measured.
        iteration_s: Seconds of an iteration: the mean over iterations, of the slowest GMI.
        steps_per_second: Of all GMIs together.
        relative_error: Standard error of `iteration_s` over `iteration_s`, the largest of all GMIs; 0: not known.
        memory_bytes: Of the largest GMI; on a GPU at least an equal share of all that the GMIs use there, with contexts
            and graphs.
        host_bytes: Of the largest GMI on the host.
        phases: Seconds by name (`phases.PHASES`), means over iterations and GMIs.
        devices: How busy the GPUs were while all GMIs iterated.
        others: Share of the cores of the GMIs that other processes took meanwhile.
        takers: The other processes that took most, in words; empty if none is seen.
        rows: The reports of the GMIs, by id, with further values of their probes.
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
    others: float = 0.0
    takers: str = ""
    rows: Sequence[Mapping[str, Any]] = ()

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes took so much that the speed says nothing."""
        return is_disturbed(self.others)

    @property
    def disturbance(self) -> str:
        """Who took the cores meanwhile, as the end of a line; empty if the measurement was not disturbed."""
        who = f" ({self.takers})" if self.takers else ""
        return f"; disturbed: other processes took {self.others:.0%} of its cores{who}" if self.is_disturbed else ""


class Session:
    """The GMIs of a layout, started once and measured with one number of environments after the other.

    After `close` it may be started again. Its logs are deleted when it is closed; errors quote the end of one.

    Args:
        layout: The layout to start. The `num_env` of its GMIs count only if `measure` gets None.
        config: The configuration of the run.
        role: `module:class` of a subclass of `roles.probes.probe.Probe`, or one for each GMI by id; None for the probe
            of the layout's template and learner.
        environment: Environment variables of the GMIs that differ from the backend's; None removes one.

    Attributes:
        compiled_s: Seconds of the simulator's first calls in the last start.

    Raises:
        UsageError: if the learner has no probe.
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
        self.bucket_bytes = config.learner.bucket_bytes(task_spec(layout.task or "", config.task))
        self.compiled_s = 0.0
        self._life, self._is_idle = ExitStack(), False

    def start(self, claim: Claim | DeviceOpener) -> None:
        """Start the GMIs.

        Args:
            claim: The claim of the layout's devices, which other sessions may share; see `opened`.

        Raises:
            GmiError: when a GMI fails, dies or does not start.
        """
        with ExitStack() as life:
            folder = RunFolder(life.enter_context(temporary_folder("gmi-drl-probe-")), stays=False)
            folder.create()
            job = Job(self.layout, self.config, folder, self.roles, self.bucket_bytes)
            gmis = opened(claim, job, {}, environment=self.environment)
            self._taken = [0 for _ in visible_gpus()]
            with self._watching_memory():
                self._processes = life.enter_context(gmis)
                self._events = self._processes.events()
                watched = watched_gpus(self.layout, self._processes.instances.environment)
                self._sampler = life.enter_context(Sampler(watched))
                self.compiled_s = max(ready.compiled_s for ready in self._receive(Ready, FIRST_MESSAGE_S))
            self._life, self._is_idle = life.pop_all(), True

    def close(self) -> None:
        """End the GMIs. Idle ones close their environments first. May be called twice."""
        if self._is_idle:
            self._is_idle = False
            self._stop()
        self._life.close()

    def _stop(self) -> None:
        """Tell all GMIs to stop, and wait at most `STOP_S` seconds for their end."""
        for gmi in self.layout.gmis:
            self._processes.send(gmi.id, Stop())
        deadline = time.monotonic() + STOP_S
        with suppress(GmiError):  # the measurements are complete
            for _ in self._processes.events():
                if time.monotonic() > deadline:
                    return

    def measure(self, num_env: int | None, seconds: float, *, deadline_s: float | None = None) -> Measured:
        """Train for about `seconds`, at least one iteration after the warm-up, and return the measurement.

        Args:
            num_env: Environments of each GMI; None for those in the layout.
            seconds: Of measuring, without making environments and warming up.
            deadline_s: Seconds after which a GMI that has not reported counts as hung; None: `seconds + PATIENCE_S`.

        Raises:
            GmiError: when a GMI fails or dies.
            PeerSilentError: when one does not report by the deadline.
        """
        limit_s = seconds + PATIENCE_S if deadline_s is None else deadline_s
        environments = {gmi.id: gmi.num_env if num_env is None else num_env for gmi in self.layout.gmis}
        total = sum(environments.values())
        self._is_idle = False
        self._sampler.forget(time.monotonic())
        cpus = allowed_cores()
        load = CoreLoad({cpus[core] for gmi in self.layout.gmis for core in gmi.cores})
        with self._watching_memory():
            for gmi_id, count in environments.items():
                self._processes.send(gmi_id, Measure(count, seconds, count / total))
            rows = [report.row for report in self._receive(Report, limit_s)]
        others, takers = load.others(), load.takers()
        self._is_idle = True
        iteration_s = max(row["iteration_s"] for row in rows)
        return Measured(
            num_env=max(environments.values()),
            iterations=rows[0]["iterations"],
            iteration_s=iteration_s,
            steps_per_second=total * self.config.learner.horizon / iteration_s,
            relative_error=max(row["relative_error"] for row in rows),
            memory_bytes=max(*(row["memory_bytes"] for row in rows), share_of_each(self.layout, self._taken)),
            host_bytes=max(row["host_bytes"] for row in rows),
            phases={name: sum(row[name] for row in rows) / len(rows) for name in PHASE_NAMES},
            devices=self._sampler.mean(max(row["began_s"] for row in rows), min(row["ended_s"] for row in rows)),
            others=others,
            takers=takers,
            rows=rows,
        )

    @contextmanager
    def _watching_memory(self) -> Iterator[None]:
        """Add up the memory that GMIs allocate or free on each GPU within the `with` block.

        No other process uses the GPUs then. The GMIs themselves do not know what CUDA takes for contexts and graphs.
        """
        before = visible_gpus()
        yield
        now = visible_gpus()
        self._taken = [
            taken + new.used_bytes - old.used_bytes for taken, old, new in zip(self._taken, before, now, strict=True)
        ]

    def _receive(self, kind: type[Message], limit_s: float) -> list[Message]:
        """Wait for one message of this kind from each GMI. Returns them by id."""
        received: dict[int, Message] = {}
        deadline = time.monotonic() + limit_s
        for event in self._events:
            if isinstance(event, GMIMessage) and isinstance(event.message, kind):
                received[event.gmi_id] = event.message
            if len(received) == len(self.layout.gmis):
                return [received[gmi.id] for gmi in self.layout.gmis]
            if time.monotonic() > deadline:
                silent = next(gmi.id for gmi in self.layout.gmis if gmi.id not in received)
                raise PeerSilentError(f"GMI {silent} has not answered within {limit_s:.0f} s")
        raise PeerSilentError("a GMI has ended before it answered")


def probe_of(layout: Layout, config: RunConfig) -> str:
    """`module:class` of the role that measures a layout.

    Raises:
        UsageError: if the learner has none; see `profiler.measurable`.
    """
    learner = LEARNERS.find(config.learner.kind)
    probe = template_of(layout).probe(learner)
    if probe is None:
        raise UsageError(f"the learner {learner.name} has no probe, so it cannot be measured")
    return probe


def share_of_each(layout: Layout, taken: Sequence[int]) -> int:
    """Bytes of one GMI if those of a GPU share equally what they have `taken` there; the most of all GPUs."""
    gpus = [device for device in layout.devices if device.kind == "gpu"]
    return max((taken[gpu.index] // len(gpu.gmis) for gpu in gpus), default=0)
