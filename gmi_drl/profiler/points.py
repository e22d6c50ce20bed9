"""Measuring profile points on this machine, by launching them (Algorithm 2's `profile`, paper section 5.2)."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from types import TracebackType
from typing import Self

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.gmi import backend_for, claimed
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.reductions import NONE
from gmi_drl.profiler.budget import Budget, Pace
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.session import Measured, Session
from gmi_drl.scheduler.memory import fit, shortage
from gmi_drl.scheduler.profile import Phases, Profile, ProfilePoint
from gmi_drl.templates import TCG_EX, Template, backend_refusal, devices_of
from gmi_drl.templates.template import all_in_one
from gmi_drl.workload import TaskSpec

MEASURE_S = 1.5  # of iterations at each point, one at least
GPU_MEASURE_S = 0.5  # where an iteration takes tens of milliseconds, and the best are confirmed for longer
WALK_S, GPU_WALK_S = 12.0, 20.0  # of a walk: a few points on cores; on a GPU all six, which take seconds each
GPU_BESIDE_S = 2.0  # that worlds, graphs and their warm-up take, until a point has told
PATIENCE = 20.0  # times longer than expected, and the GMI hangs
LEAST_PATIENCE_S = 15.0  # even where the budget is over
CAREFUL_ABOVE = 1024  # environments of a GMI: before so many, two small points tell how much memory they need
SMALL = (128, 256)
INSTEAD = 512  # of one of the two that does not run


class PointMeasurer:
    """A `measure` for the search: runs what is not in the cache, one division at a time.

    Where cores enforce the share of a GMI, one GMI is run alone; on a GPU, where nothing does, all GMIs of a device,
    which reduce as those of all devices would by the same speeds. What was measured by another reduction does not
    count.
    A GMI that fails, dies or hangs, at its start or later, makes its point not runnable, and so does a backend that
    refuses the division. A `with` block ends what still runs.

    Args:
        task: What is measured.
        config: How it trains.
        node: This machine.
        cache: Where points come from and go to.
        grid: What will be asked for.
        budget: What does not fit into it is left unmeasured.
        on_point: Told of every point that is measured.
        speeds: How fast GMIs reduce, by backend, as far as that is known.
        template: What its GMIs do.
        one_at_least: Measure a first point whatever is left of the budget: starts may take longer than expected.
    """

    def __init__(
        self,
        task: TaskSpec,
        config: RunConfig,
        node: Node,
        cache: Cache,
        grid: Iterable[Cut],
        budget: Budget,
        on_point: Callable[[ProfilePoint], None] = lambda point: None,
        *,
        speeds: SpeedsByBackend | None = None,
        template: Template = TCG_EX,
        one_at_least: bool = False,
    ) -> None:
        self.task, self.config, self.node, self.cache, self.template = task, config, node, cache, template
        self._crossing = partial(template.communication, task, config.learner, node, speeds=speeds)
        self.budget, self.on_point = budget, on_point
        self.points: list[ProfilePoint] = []
        self.unmeasured: dict[Cut, None] = {}
        self.pace, self._one_at_least = pace_on(node), one_at_least
        self._to_come, self._part = list(dict.fromkeys(cut.division for cut in grid)), budget
        self._life = ExitStack()
        self._session: Session | None = None
        self._division: tuple[str, int] | None = None

    def __call__(self, cut: Cut) -> ProfilePoint | None:
        """The point, from the cache or measured now; None if there is no time for it. `points` keeps it."""
        self._turn_to(cut.division)
        known = self.profile.point(cut)  # failures, too: nothing is tried twice
        if known is not None:
            return known
        point = self._remembered(cut) or self._measured(cut)
        self.points.extend([] if point is None else [point])
        return point

    @property
    def profile(self) -> Profile:
        """All points that were asked for and are known."""
        return self.cache.profile.model_copy(update={"points": tuple(self.points)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _remembered(self, cut: Cut) -> ProfilePoint | None:
        """What was measured before of a cut whose GMIs reduced as they would now."""
        point = self.cache.profile.point(cut)
        return point if point and point.reduction == reduction_of(self._layout(cut)) else None

    def _measured(self, cut: Cut) -> ProfilePoint | None:
        if refused := refusal(self.node, self._whole(cut)):
            return not_runnable(cut, refused)
        if cut.num_env > CAREFUL_ABOVE:
            smaller = self._smaller(cut)
            if None in smaller:
                self.unmeasured[cut] = None
                return None
            failed = [point for point in smaller if point is not None and not point.runnable]
            if len(failed) > 1:
                few = " and ".join(str(point.num_env) for point in failed)
                return not_runnable(cut, f"nor do {few}: {failed[-1].reason}")
        if why := self._too_large(cut):
            return not_runnable(cut, why)
        expected_s = self._expected_s(cut)
        has_one = any(point.runnable for point in self.points) or not self._one_at_least
        if expected_s > self._part.left_s and has_one:
            self.unmeasured[cut] = None
            return None
        point = self._run(cut, expected_s)
        self.on_point(point)
        if point.runnable:  # what failed may have had its reason in the moment
            self.cache.add(point)
        return point

    def _smaller(self, cut: Cut) -> list[ProfilePoint | None]:
        """Small points up to the second that runs, and so tells the line of the memory, or the second that does not."""
        smaller = [self(cut.with_num_env(few)) for few in SMALL]
        ran = [point.runnable for point in smaller if point is not None]
        return [*smaller, self(cut.with_num_env(INSTEAD))] if sorted(ran) == [False, True] else smaller

    def _run(self, cut: Cut, expected_s: float) -> ProfilePoint:
        try:
            session = self._session_of(cut)
            deadline_s = min(10 + PATIENCE * expected_s, max(LEAST_PATIENCE_S, self.budget.left_s))
            started = time.monotonic()
            measured = session.measure(cut.num_env, self.pace.measure_s, deadline_s=deadline_s)
        except GmiError as error:
            if error.exit_code != GmiError.exit_code:  # a package is missing, say: no other point would run either
                raise
            self._end()
            return not_runnable(cut, str(error).splitlines()[0])
        self.pace.has_run(time.monotonic() - started, measured)
        point = point_of(measured, cut, session.layout)
        first, *_ = (*self.node.model_of_each_gpu, "")  # points are of the first device
        return point.model_copy(update={"model": first})

    def _session_of(self, cut: Cut) -> Session:
        if self._session is None or self._division != cut.division:
            self._end()
            layout = self._layout(cut)
            claim = self._life.enter_context(claimed([layout], "gmi-drl is measuring"))
            session = self._life.enter_context(closing(Session(layout, self.config)))
            self.pace.start_s = self.budget.start(session, claim)
            self._session = session
            self._division = cut.division
        return self._session

    def _end(self) -> None:
        self._session = None
        self._life.close()

    def _layout(self, cut: Cut) -> Layout:
        """What is run for a division: one GMI where cores enforce its share, else all those of one device."""
        whole = self._whole(cut)
        device = whole.devices[0]
        gmis = device.gmis[:1] if device.kind == "cpu" else device.gmis
        return Layout(
            task=whole.task,
            template=whole.template,
            backend=whole.backend,
            devices=(Device(kind=device.kind, index=device.index, gmis=gmis),),
            groups=self._groups(cut, whole, gmis),
        )

    def _groups(self, cut: Cut, whole: Layout, gmis: Sequence[GMI]) -> dict[str, GmiGroup]:
        """The group of some GMIs of a layout, which reduce as all of it do; none where nothing is summed."""
        if not whole.groups:
            return {}
        everyone, part = (
            self.template.trainers_of(mapping)
            for mapping in ([[gmi.id for gmi in device.gmis] for device in whole.devices], [[gmi.id for gmi in gmis]])
        )
        return all_in_one(part, self._crossing(cut.backend).method_of_part(part, everyone))

    def _whole(self, cut: Cut) -> Layout:
        """The layout that a division stands for."""
        few = cut.with_num_env(SMALL[0])
        return self.template.lay_out(self.task, self.node, few, communication=self._crossing(cut.backend))

    def _turn_to(self, division: tuple[str, int]) -> None:
        """Divisions share what is left of the budget, so that the first does not take it all."""
        if division in self._to_come:
            self._part = self.budget.part(self.pace.share(self.budget.left_s, len(self._to_come)))
            self._to_come.remove(division)

    def _too_large(self, cut: Cut) -> str | None:
        """Why the memory will not do, as far as smaller points of this division tell."""
        size, num_env = cut.gmis_per_gpu, cut.num_env
        points = [point for point in self.cache.profile.points if point.cut.division == cut.division and point.runnable]
        device = fit((point.num_env, point.memory_bytes) for point in points)
        host = fit((point.num_env, point.host_bytes) for point in points)
        num_gmis = size * devices_of(self.node)[0]
        device_bytes, host_bytes = (model(num_env) if model else 0 for model in (device, host))
        why = backend_refusal(self.node, cut, device_bytes)
        return why or shortage(self.node, num_gmis, size, device_bytes, host_bytes)

    def _expected_s(self, cut: Cut) -> float:
        """What a point will take of the budget: its start, a warm-up and a measurement, by the nearest smaller one."""
        size, num_env = cut.gmis_per_gpu, cut.num_env
        is_alive = self._session is not None and self._division == cut.division
        start_s = 0.0 if is_alive else self.pace.start_s
        known = [point for point in self.cache.profile.points if point.runnable and point.num_env <= num_env]
        if not known:
            return start_s + self.pace.expected_s()
        nearest = max(known, key=lambda point: (point.cut.division == cut.division, point.num_env))
        slowdown = math.ceil(size / nearest.gmis_per_gpu)
        iteration_s = num_env * self.config.learner.horizon / nearest.steps_per_second * slowdown
        return start_s + self.pace.expected_s(iteration_s)


def pace_on(node: Node) -> Pace:
    """What measuring is expected to take on a node before anything is measured there."""
    return Pace(GPU_MEASURE_S, GPU_WALK_S, GPU_BESIDE_S) if node.num_gpus else Pace(MEASURE_S, WALK_S)


def refusal(node: Node, layout: Layout) -> str:
    """Why the backend of a layout cannot open it on this node; empty when it can."""
    return "; ".join(backend_for(layout).check(node, layout))


def not_runnable(cut: Cut, reason: str) -> ProfilePoint:
    """A point that was tried or ruled out."""
    return ProfilePoint(
        gmis_per_gpu=cut.gmis_per_gpu,
        num_env=cut.num_env,
        backend=cut.backend,
        capped=cut.capped,
        runnable=False,
        reason=reason,
    )


def reduction_of(layout: Layout) -> str:
    """How the GMIs of a layout reduce, by name."""
    return next((group.reduction for group in layout.groups.values()), NONE.name)


def point_of(measured: Measured, cut: Cut, layout: Layout) -> ProfilePoint:
    """A measurement of all GMIs of a layout as a profile point, which speaks of one."""
    return ProfilePoint(
        gmis_per_gpu=cut.gmis_per_gpu,
        num_env=measured.num_env,
        backend=cut.backend,
        capped=cut.capped,
        reduction=reduction_of(layout),
        runnable=True,
        steps_per_second=measured.steps_per_second / len(layout.gmis),
        relative_error=measured.relative_error,
        memory_bytes=measured.memory_bytes,
        host_bytes=measured.host_bytes,
        phases=Phases(**measured.phases),
    )
