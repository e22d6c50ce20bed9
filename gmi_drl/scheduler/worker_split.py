"""Divides cores among actors, policy workers and trainers by the rates of each (SRL, section 2.2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gmi_drl.scheduler.worker_rates import WorkerRates
from gmi_drl.units import counted, human_count

RINGS = (1, 2)
"""Members of rings that are compared."""


@dataclass(frozen=True)
class WorkerSplit:
    """Cores, each of one worker.

    Args:
        actors: That simulate.
        policies: Policy workers; 0: actors act for themselves.
        trainers: That learn.
        ring: Members of the ring of an actor.
        produced: Steps/s that the actors make if they never wait for trainers.
        learnt: Steps/s that the trainers can learn from.
    """

    actors: int
    policies: int
    trainers: int
    ring: int
    produced: float
    learnt: float

    @property
    def expected(self) -> float:
        """Predicted steps/s: those of the slower side, for which the other waits."""
        return min(self.produced, self.learnt)

    @property
    def described(self) -> str:
        """In a sentence."""
        rings = f" with rings of {self.ring}" if self.ring > 1 else ""
        actors = counted(self.actors, "actor") + rings
        acting = f"{actors} and {counted(self.policies, 'policy worker')}" if self.policies else f"{actors}, inline"
        pace = "actors" if self.produced < self.learnt else "trainers"
        makes, learns = f"{human_count(self.produced)} steps/s", f"could learn from {human_count(self.learnt)}"
        return f"{acting}: {makes}, {counted(self.trainers, 'trainer')} {learns}: the {pace} set the pace"


def worker_splits(rates: WorkerRates, cores: int) -> list[WorkerSplit]:
    """All ways to divide the cores, the most steps/s first, then the fewest policy workers and members."""
    found = [*_inline(rates, cores), *_remote(rates, cores)]
    return sorted(found, key=lambda one: (-one.expected, one.policies, one.ring, one.trainers))


def _inline(rates: WorkerRates, cores: int) -> Iterator[WorkerSplit]:
    for trainers in range(1, cores):
        actors = cores - trainers
        yield WorkerSplit(actors, 0, trainers, 1, actors * rates.inline, trainers / rates.update_s)


def _remote(rates: WorkerRates, cores: int) -> Iterator[WorkerSplit]:
    for trainers in range(1, cores - 1):
        for policies in range(1, cores - trainers):
            actors = cores - trainers - policies
            if policies > actors:
                continue
            for ring in rings_of(rates):
                produced = _produced(rates, actors, policies, ring)
                yield WorkerSplit(actors, policies, trainers, ring, produced, trainers / rates.update_s)


def _produced(rates: WorkerRates, actors: int, policies: int, ring: int) -> float:
    """Steps/s of actors with policy workers, which answer one batch after the other, a member of each of its actors."""
    rows = rates.num_env / ring * actors / policies
    answer_s = rates.answer_s(rows)
    return min(actors * rates.num_env / round_s(rates, ring, rates.trip_s + answer_s), policies * rows / answer_s)


def round_s(rates: WorkerRates, ring: int, waits_s: float) -> float:
    """Seconds in which all environments of an actor step once, if a member waits so long for its actions.

    An actor steps its members in turn. Each needs its step and its answer, so a round takes the larger of all steps and
    of one step with its answer: a ring hides waiting.
    """
    return max(rates.step_s, rates.step_s / ring + waits_s)


def rings_of(rates: WorkerRates) -> Sequence[int]:
    """The sizes of rings that divide the environments of an actor."""
    return [ring for ring in RINGS if rates.num_env % (ring * rates.agents) == 0]
