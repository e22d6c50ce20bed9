"""Which worker a run lacks, from the seconds that each kind waits in its rows (templates `workers` and `decoupled`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from gmi_drl.run.metrics import Row

MUCH_WAITING = 0.2
"""The share of waiting from which it is named."""

_NEEDED = ("rollouts_wait_s", "wait_s", "fetch_s", "sim_s", "act_s", "learn_s", "sync_s")
_SERVED = ("answers_wait_s", "requests_wait_s", "versions_wait_s")


@dataclass(frozen=True)
class Waits:
    """Shares of its time that each kind of worker waits, 0 to 1; those of policy workers are None if there are none.

    Attributes:
        rollouts: A trainer, for rollouts.
        places: An actor, for a place in the channels.
        answers: An actor, for answers of its policy worker.
        requests: A policy worker, for requests.
        versions: A policy worker, for versions of the policy.
    """

    rollouts: float
    places: float
    answers: float | None = None
    requests: float | None = None
    versions: float | None = None

    @property
    def are_served(self) -> bool:
        """Whether a policy worker answers."""
        return self.answers is not None

    def __str__(self) -> str:
        actors, policies = [f"{self.places:.0%} for places"], ""
        if self.answers is not None:
            actors.append(f"{self.answers:.0%} for answers")
            policies = f", policy workers {self.requests:.0%} for requests and {self.versions:.0%} for versions"
        return f"actors wait {' and '.join(actors)}{policies}, trainers {self.rollouts:.0%} for rollouts"


def waits_of_rows(rows: Sequence[Row]) -> Waits | None:
    """The mean shares over these rows; None if they have no numbers of channels."""
    told = [row for row in rows if all(isinstance(row.get(name), int | float) for name in _NEEDED)]
    if not told:
        return None
    sums = {name: sum(row.get(name) or 0.0 for row in told) for name in (*_NEEDED, *_SERVED)}
    playing_s = sums["sim_s"] + sums["act_s"]
    actor_s = playing_s + sums["wait_s"] + sums["fetch_s"]
    trainer_s = sums["learn_s"] + sums["sync_s"]
    served = [_share(sums[name], playing_s) for name in _SERVED] if any(sums[name] for name in _SERVED) else []
    return Waits(_share(sums["rollouts_wait_s"], trainer_s), _share(sums["wait_s"], actor_s), *served)


def worker_verdict(waits: Waits) -> str:
    """One line: which worker to add, and who waits."""
    return f"{_advice(waits)}: {waits}"


def _advice(waits: Waits) -> str:
    if waits.rollouts >= MUCH_WAITING and waits.places >= MUCH_WAITING:
        return "raise channels.max_lag, as actors and trainers take turns"
    if waits.places >= MUCH_WAITING:
        return "add a trainer"
    if waits.rollouts < MUCH_WAITING:
        return "no kind of worker holds the others up"
    if not waits.are_served or (waits.answers or 0.0) < MUCH_WAITING:
        return "add an actor"
    if (waits.requests or 0.0) + (waits.versions or 0.0) < MUCH_WAITING:
        return "add a policy worker"
    return "add an actor or raise ring, as neither side of the streams is busy"


def _share(seconds: float, of_s: float) -> float:
    return min(1.0, seconds / of_s) if of_s > 0 else 0.0
