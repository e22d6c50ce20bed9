"""How many GMIs act and how many train, by the rates of both (paper section 5.1, Figure 6b)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gmi_drl.config.learners import A3CConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import devices_of
from gmi_drl.units import counted, human_count

AS_GOOD = 0.95
"""Of the most steps/s: what has so much and fewer environments is taken, as its steps teach more."""

Waits = Callable[[Cut, int], float]
"""Seconds that an update of so many trainers of a cut takes beside what each learns: their sums."""


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
        """Steps per second of the slower side, for which the other waits."""
        return min(self.produced, self.learnt)

    @property
    def steps_per_second(self) -> float:
        """The best that is known."""
        return self.expected if self.confirmed is None else self.confirmed

    @property
    def error(self) -> float | None:
        """How much too fast it was expected to be, e.g. 0.05; None where it was not run."""
        return self.expected / self.confirmed - 1 if self.confirmed else None

    def on(self, machines: int) -> "Division":
        """So many machines together, each divided in this way."""
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
    learner: A3CConfig,
    waits: Waits = lambda cut, trainers: 0.0,
) -> list[Division]:
    """All ways to divide the GMIs of what was measured, the most steps/s first.

    Args:
        node: Whose devices are cut.
        acting: Points of GMIs that simulate and act.
        learning: Steps per second that one GMI of a cut can learn from.
        learner: By how many rollouts, of how many steps, a trainer learns.
        waits: Of trainers for each other.
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
    """The one with the fewest environments, then trainers, of those that are as good as the best.

    Raises:
        NoFeasiblePlanError: if there is none.
    """
    if not found:
        raise NoFeasiblePlanError("nothing was measured that has an agent and a trainer: give more with --budget")
    enough = AS_GOOD * found[0].steps_per_second
    as_good = [division for division in found if division.steps_per_second >= enough]
    return min(as_good, key=lambda one: (one.agents * one.cut.num_env, one.trainers, -one.steps_per_second))


def division_of(
    point: ProfilePoint, learns: float, gmis: int, trainers: int, learner: A3CConfig, waits: Waits
) -> Division:
    """So many GMIs in all of which some train: see `divisions`."""
    agents = gmis - trainers
    samples = learner.rollouts_of(agents, trainers) * learner.horizon * point.num_env
    update_s = samples / learns + waits(point.cut, trainers)
    return Division(point.cut, agents, trainers, agents * point.steps_per_second, trainers * samples / update_s)
