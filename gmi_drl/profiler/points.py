"""Measures profile points on this machine by launching GMIs (Algorithm 2's `profile`, paper section 5.2)."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError
from gmi_drl.gmi import backend_for, claimed
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.layout.reductions import NONE
from gmi_drl.profiler.budget import GPU_START_S, Budget, Pace
from gmi_drl.profiler.cache import Cache
from gmi_drl.profiler.session import Measured, Session
from gmi_drl.scheduler.grid import gpu_simulates
from gmi_drl.scheduler.memory import fit, shortage
from gmi_drl.scheduler.profile import Phases, Profile, ProfilePoint
from gmi_drl.templates import TCG_EX, Template, backend_refusal, devices_of
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.template import all_in_one
from gmi_drl.workload import TaskSpec

MEASURE_S = 1.5  # of iterations at each point, at least one
GPU_MEASURE_S = 0.5  # on a GPU an iteration takes tens of milliseconds, and the best points are confirmed for longer
WALK_S, GPU_WALK_S = 12.0, 35.0  # one walk: a few points; on a GPU each takes seconds, the start more than ten
GPU_BESIDE_S = 3.0  # environments, graphs and their warm-up, until a point was measured
PATIENCE = 20.0  # a GMI that takes this many times longer than expected hangs
LEAST_PATIENCE_S = 15.0  # also if the budget is spent
CAREFUL_ABOVE = 1024  # environments of a GMI: above, two small points are measured first, to predict the memory
SMALL = (128, 256)  # environments of these two points
INSTEAD = 512  # environments of a third point, if one of the two does not run
GPU_TIMES = 16  # of simulators on a GPU times as many in each: a lack of its memory ends one process alone

AskSpeeds = Callable[[str, Budget], SpeedsByBackend]
"""Tells the speeds that are known, with those of a backend, which it may measure within a budget."""


class PointMeasurer:
    """The `measure` of a search: takes points from the cache or launches GMIs, of one division at a time.

    On cores, which enforce the share of a GMI, one GMI runs alone. On a GPU all GMIs of one device run, and reduce as
    the GMIs of all devices would at the same speeds. A point in the cache that used another reduction does not count.
    If a GMI fails, dies or hangs, or the backend refuses the division, the point is not runnable. `close` ends all
    GMIs. A point that other processes disturbed is measured once more.

    Args:
        task: The task to measure.
        config: The configuration of the run.
        node: This machine.
        cache: Where points are read and stored.
        grid: The cuts that will be asked for.
        budget: Points that do not fit into it stay unmeasured.
        on_point: Called with every measured point.
        speeds: Tells how fast GMIs reduce. It is asked before the first point of a division of a device into several.
        template: The template, which says what a GMI does.
        one_at_least: Measure a first point although the budget may be too short: starts may take longer than expected.
        kept: Part of what is left of the budget that divisions into several GMIs may not use.

    Attributes:
        disturbance: Of the last measurement that was disturbed; see `Measured.disturbance`.
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
        speeds: AskSpeeds = lambda backend, budget: {},
        template: Template = TCG_EX,
        one_at_least: bool = False,
        kept: float = 0.0,
    ) -> None:
        self.task, self.config, self.node, self.cache, self.template = task, config, node, cache, template
        self._ask_speeds, self._kept = speeds, kept
        self._speeds: SpeedsByBackend = {}
        self._times = GPU_TIMES if gpu_simulates(node, task, config.physics) else 1
        self.budget, self.on_point, self.disturbance = budget, on_point, ""
        self.points: list[ProfilePoint] = []
        self.unmeasured: dict[Cut, None] = {}
        self.pace, self._one_at_least = pace_on(node), one_at_least
        self._to_come, self._part = list(dict.fromkeys(cut.division for cut in grid)), budget
        self._life = ExitStack()
        self._session: Session | None = None
        self._division: tuple[str, int] | None = None

    def __call__(self, cut: Cut) -> ProfilePoint | None:
        """The point of a cut, from the cache or measured now, which `points` keeps; None if there is no time for it."""
        self._begin(cut)
        known = self.profile.point(cut)  # failures count, too: nothing is tried twice
        if known is not None:
            return known
        point = self._cached(cut) or self._measured(cut)
        self.points.extend([] if point is None else [point])
        return point

    @property
    def profile(self) -> Profile:
        """The points that were asked for, without unmeasured ones."""
        return self.cache.profile.model_copy(update={"points": tuple(self.points)})

    def _cached(self, cut: Cut) -> ProfilePoint | None:
        """The cached point of a cut, if its GMIs used the reduction that they would use now."""
        point = self.cache.profile.point(cut)
        return point if point and point.reduction == reduction_of(self._layout(cut)) else None

    def _measured(self, cut: Cut) -> ProfilePoint | None:
        if refused := refusal(self.node, self._whole(cut)):
            return not_runnable(cut, refused)
        if cut.num_env > self._times * CAREFUL_ABOVE and not self._has_two_smaller(cut):
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
        if point.runnable and not point.disturbance:  # a failure may be a passing one, so it is not stored
            self.cache.add(point)
        return point

    def _smaller(self, cut: Cut) -> list[ProfilePoint | None]:
        """The points of few environments: two, which allow to fit the memory, or a third if one of them failed."""
        *cuts, instead = (cut.with_num_env(self.task.whole_worlds(self._times * few)) for few in (*SMALL, INSTEAD))
        smaller = list(map(self, cuts))
        ran = [point.runnable for point in smaller if point is not None]
        return [*smaller, self(instead)] if sorted(ran) == [False, True] else smaller

    def _has_two_smaller(self, cut: Cut) -> bool:
        """Whether two points of the division with fewer environments tell the memory; tiny ones tell only noise."""
        same = {point.num_env for point in self._runnable() if point.cut.division == cut.division}
        return sum(self._times * SMALL[0] <= num_env < cut.num_env for num_env in same) > 1

    def _run(self, cut: Cut, expected_s: float) -> ProfilePoint:
        try:
            session = self._session_of(cut)
            deadline_s = min(10 + PATIENCE * expected_s, max(LEAST_PATIENCE_S, self.budget.left_s))
            started = time.monotonic()
            measured = session.measure(cut.num_env, self.pace.measure_s, deadline_s=deadline_s)
            if measured.is_disturbed and 2 * (time.monotonic() - started) < self._part.left_s:
                measured = session.measure(cut.num_env, self.pace.measure_s, deadline_s=deadline_s)
        except GmiError as error:
            if error.exit_code != GmiError.exit_code:  # e.g. a missing package: no other point would run either
                raise
            self.close()
            return not_runnable(cut, str(error).splitlines()[0])
        self.pace.has_run(time.monotonic() - started, measured)
        self.disturbance = measured.disturbance or self.disturbance
        point = point_of(measured, cut, session.layout)
        first, *_ = (*self.node.used_counts, "")  # the model of the device that was measured
        return point.model_copy(update={"model": first})

    def _session_of(self, cut: Cut) -> Session:
        if self._session is None or self._division != cut.division:
            self.close()
            layout = self._layout(cut)
            claim = self._life.enter_context(claimed([layout], "gmi-drl is measuring"))
            session = self._life.enter_context(closing(Session(layout, self.config)))
            self.pace.start_s = self.budget.start(session, claim)
            self._session = session
            self._division = cut.division
        return self._session

    def close(self) -> None:
        """End all GMIs."""
        self._session = None
        self._life.close()

    def _layout(self, cut: Cut) -> Layout:
        """The layout that is launched for a division: one GMI on cores, all GMIs of one device on a GPU."""
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
        """The group of the launched GMIs, with the reduction of the whole layout; none if nothing is summed."""
        if not whole.groups:
            return {}
        everyone, part = (
            self.template.trainers_of(mapping)
            for mapping in ([[gmi.id for gmi in device.gmis] for device in whole.devices], [[gmi.id for gmi in gmis]])
        )
        return all_in_one(part, self._crossing(cut.backend).method_of_part(part, everyone))

    def _whole(self, cut: Cut) -> Layout:
        """The layout of all devices of the node."""
        few = cut.with_num_env(SMALL[0])
        return self.template.lay_out(self.task, self.node, few, communication=self._crossing(cut.backend))

    def _begin(self, cut: Cut) -> None:
        """Give a new division its part of the budget, so that the first does not use all of it."""
        if cut.division not in self._to_come:
            return
        if cut.gmis_per_gpu > 1:
            self.budget, self._kept = self.budget.part(1 - self._kept), 0.0
            self._speeds = self._ask_speeds(cut.backend, self.budget)
        self._part = self.budget.part(self.pace.share(self.budget.left_s, len(self._to_come)))
        self._to_come.remove(cut.division)

    def _crossing(self, backend: str) -> Communication:
        """What crosses the borders of GMIs, by the speeds that are known now."""
        return self.template.communication(self.task, self.config.learner, self.node, backend, self._speeds)

    def _runnable(self) -> list[ProfilePoint]:
        """Points that tell memory and, roughly, time: the cached ones, and disturbed ones, which are not cached."""
        disturbed = [point for point in self.points if point.disturbance]
        return [point for point in (*self.cache.profile.points, *disturbed) if point.runnable]

    def _too_large(self, cut: Cut) -> str | None:
        """Why the memory will not suffice, predicted from smaller points of this division; None if it will."""
        size, num_env = cut.gmis_per_gpu, cut.num_env
        points = [point for point in self._runnable() if point.cut.division == cut.division]
        device = fit((point.num_env, point.memory_bytes) for point in points)
        host = fit((point.num_env, point.host_bytes) for point in points)
        num_gmis = size * devices_of(self.node)[0]
        device_bytes, host_bytes = (model(num_env) if model else 0 for model in (device, host))
        why = backend_refusal(self.node, cut, device_bytes)
        return why or shortage(self.node, num_gmis, size, device_bytes, host_bytes)

    def _expected_s(self, cut: Cut) -> float:
        """Predicted seconds of a point: start, warm-up and measurement, by the nearest smaller known point."""
        size, num_env = cut.gmis_per_gpu, cut.num_env
        is_alive = self._session is not None and self._division == cut.division
        start_s = 0.0 if is_alive else self.pace.start_s
        known = [point for point in self._runnable() if point.num_env <= num_env]
        if not known:
            return start_s + self.pace.expected_s()
        nearest = max(known, key=lambda point: (point.cut.division == cut.division, point.num_env))
        slowdown = math.ceil(size / nearest.gmis_per_gpu)
        iteration_s = num_env * self.config.learner.horizon / nearest.steps_per_second * slowdown
        return start_s + self.pace.expected_s(iteration_s)


def pace_on(node: Node) -> Pace:
    """The pace expected on a node before anything was measured."""
    return Pace(GPU_MEASURE_S, GPU_WALK_S, GPU_BESIDE_S, GPU_START_S) if node.num_gpus else Pace(MEASURE_S, WALK_S)


def refusal(node: Node, layout: Layout) -> str:
    """Why the backend of a layout cannot open it on this node; empty if it can."""
    return "; ".join(backend_for(layout).check(node, layout))


def not_runnable(cut: Cut, reason: str) -> ProfilePoint:
    """The point of a cut that failed or was ruled out."""
    return ProfilePoint(
        gmis_per_gpu=cut.gmis_per_gpu,
        num_env=cut.num_env,
        backend=cut.backend,
        capped=cut.capped,
        runnable=False,
        reason=reason,
    )


def reduction_of(layout: Layout) -> str:
    """The name of the reduction of a layout; `none` without groups."""
    return next((group.reduction for group in layout.groups.values()), NONE.name)


def point_of(measured: Measured, cut: Cut, layout: Layout) -> ProfilePoint:
    """The profile point, of one GMI, from a measurement of all GMIs of a layout."""
    return ProfilePoint(
        gmis_per_gpu=cut.gmis_per_gpu,
        num_env=measured.num_env,
        backend=cut.backend,
        capped=cut.capped,
        reduction=reduction_of(layout),
        runnable=True,
        steps_per_second=measured.steps_per_second / len(layout.gmis),
        relative_error=measured.relative_error,
        others=measured.others,
        memory_bytes=measured.memory_bytes,
        host_bytes=measured.host_bytes,
        phases=Phases(**measured.phases),
    )
