"""Divides GMIs between agents and trainers by the rates of both (paper section 5.1, Figure 6b)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gmi_drl.config.learners import LearnerConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import devices_of
from gmi_drl.units import counted, human_count

AS_GOOD = 0.95
"""Part of the highest steps/s from which a division with fewer environments is preferred: its steps teach more."""

Waits = Callable[[Cut, int], float]
"""Seconds that the sums of gradients add to an update, by the cut and the number of trainers."""


@dataclass(frozen=True)
class Division:
    """GMIs, cut alike, divided between agents and trainers.

    Args:
        cut: How devices are cut; its environments are those of an agent.
        agents: GMIs that act.
        trainers: GMIs that train.
        produced: Steps per second that all agents make.
        learnt: Steps per second that all trainers can learn from.
        confirmed: Steps per second of both sides run at once; None if that was not done.
    """

    cut: Cut
    agents: int
    trainers: int
    produced: float
    learnt: float
    confirmed: float | None = None

    @property
    def expected(self) -> float:
        """Predicted steps per second: those of the slower side, for which the other waits."""
        return min(self.produced, self.learnt)

    @property
    def steps_per_second(self) -> float:
        """The confirmed speed, or else the predicted one."""
        return self.expected if self.confirmed is None else self.confirmed

    @property
    def error(self) -> float | None:
        """The relative error of the prediction, e.g. 0.05 for 5 % too fast; None if it did not run."""
        return self.expected / self.confirmed - 1 if self.confirmed else None

    def on(self, machines: int) -> "Division":
        """This division of each of several machines, with the numbers of all of them."""
        return replace(
            self,
            agents=machines * self.agents,
            trainers=machines * self.trainers,
            produced=machines * self.produced,
            learnt=machines * self.learnt,
            confirmed=None if self.confirmed is None else machines * self.confirmed,
        )

    @property
    def described(self) -> str:
        """In a sentence."""
        sides = f"{counted(self.agents, 'agent')} x {self.cut.num_env} environments:"
        waits = "agents" if self.produced < self.learnt else "trainers"
        learns = f"{counted(self.trainers, 'trainer')} could learn from {human_count(self.learnt)}"
        return f"{sides} {human_count(self.produced)} steps/s, {learns}: {waits} set the pace"


def divisions(
    node: Node,
    acting: Iterable[ProfilePoint],
    learning: Mapping[Cut, float],
    learner: LearnerConfig,
    waits: Waits = lambda cut, trainers: 0.0,
) -> list[Division]:
    """All divisions of the GMIs of measured cuts, the most steps/s first.

    Args:
        node: The machine whose devices are cut.
        acting: Points of GMIs that simulate and act.
        learning: Steps per second that one GMI of a cut can learn from.
        learner: Its `rollouts` and `horizon` decide the size of an update.
        waits: Seconds that the sums of gradients add to an update.
    """
    devices, _ = devices_of(node)
    found = [
        division_of(point, learning[point.cut], devices * point.gmis_per_gpu, trainers, learner, waits)
        for point in acting
        if point.runnable and point.cut in learning
        for trainers in range(1, devices * point.gmis_per_gpu)
    ]
    return sorted(found, key=lambda division: (-division.steps_per_second, division.cut, division.trainers))


def chosen(found: list[Division]) -> Division:
    """The division with the fewest environments, then trainers, among those within `AS_GOOD` of the best.

    Raises:
        NoFeasiblePlanError: if there is none.
    """
    if not found:
        raise NoFeasiblePlanError("nothing was measured that has an agent and a trainer: give more with --budget")
    enough = AS_GOOD * found[0].steps_per_second
    as_good = [division for division in found if division.steps_per_second >= enough]
    return min(as_good, key=lambda one: (one.agents * one.cut.num_env, one.trainers, -one.steps_per_second))


def division_of(
    point: ProfilePoint, learns: float, gmis: int, trainers: int, learner: LearnerConfig, waits: Waits
) -> Division:
    """The division of `gmis` GMIs, `trainers` of which train. See `divisions`.

    `learns` is the rate of one trainer, which was measured with one rollout in an update.
    """
    agents = gmis - trainers
    rollouts, steps = learner.rollouts_of(agents, trainers), learner.horizon * point.num_env
    samples, measured = rollouts * steps, steps if learner.has_fixed_updates else rollouts * steps
    update_s = measured / learns + waits(point.cut, trainers)
    return Division(point.cut, agents, trainers, agents * point.steps_per_second, trainers * samples / update_s)
