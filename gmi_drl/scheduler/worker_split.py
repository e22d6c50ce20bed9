"""Divides cores among actors, policy workers and trainers by the rates of each (SRL, section 2.2)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gmi_drl.units import counted, human_count

RINGS = (1, 2)
"""Members of rings that are compared."""


@dataclass(frozen=True)
class WorkerRates:
    """What was measured on one core, alone.

    Args:
        num_env: N, environments of an actor.
        step_s: Seconds of a step of N environments.
        answers: Seconds of an answer by the rows of its batch.
        update_s: Seconds of an update for each of its samples.
        trip_s: Seconds of a request and an empty answer between two processes.
        agents: Of a world, which is in one member of a ring.
    """

    num_env: int
    step_s: float
    answers: Mapping[int, float]
    update_s: float
    trip_s: float
    agents: int = 1

    def answer_s(self, rows: float) -> float:
        """Seconds of an answer to so many rows: on the line between two measured sizes, or beyond by the last."""
        sizes = sorted(self.answers)
        for below, above in pairwise(sizes):
            if rows <= above:
                share = max(0.0, (rows - below) / (above - below))
                return self.answers[below] + share * (self.answers[above] - self.answers[below])
        return self.answers[sizes[-1]] * max(1.0, rows / sizes[-1])

    @property
    def together(self) -> float:
        """Steps/s of a core that simulates, acts and learns in turn: what TCG_EX does."""
        return 1 / ((self.step_s + self.answer_s(self.num_env)) / self.num_env + self.update_s)


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
    each = rates.num_env / (rates.step_s + rates.answer_s(rates.num_env))
    for trainers in range(1, cores):
        actors = cores - trainers
        yield WorkerSplit(actors, 0, trainers, 1, actors * each, trainers / rates.update_s)


def _remote(rates: WorkerRates, cores: int) -> Iterator[WorkerSplit]:
    for trainers in range(1, cores - 1):
        for policies in range(1, cores - trainers):
            actors = cores - trainers - policies
            if policies > actors:
                continue
            for ring in _rings_of(rates):
                produced = _produced(rates, actors, policies, ring)
                yield WorkerSplit(actors, policies, trainers, ring, produced, trainers / rates.update_s)


def _produced(rates: WorkerRates, actors: int, policies: int, ring: int) -> float:
    """Steps/s of actors with policy workers.

    An actor steps its members in turn. Each needs its step and its answer, so a round takes the larger of all steps and
    of one step with its answer: a ring hides waiting. A batch has a member of each actor of a policy worker, which
    answers one after the other.
    """
    rows = rates.num_env / ring * actors / policies
    step_s, answer_s = rates.step_s / ring, rates.answer_s(rows)
    round_s = max(ring * step_s, step_s + rates.trip_s + answer_s)
    return min(actors * rates.num_env / round_s, policies * rows / answer_s)


def _rings_of(rates: WorkerRates) -> Sequence[int]:
    return [ring for ring in RINGS if rates.num_env % (ring * rates.agents) == 0]
