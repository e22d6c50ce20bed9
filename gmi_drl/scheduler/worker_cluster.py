"""Divides machines of several kinds among actors, policy workers and trainers (SRL, Figure 2): the numbers alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from gmi_drl.hardware.cluster import Network
from gmi_drl.scheduler.worker_rates import WorkerRates, on_line
from gmi_drl.scheduler.worker_split import RINGS, round_s

DENSE = 8
"""Up to so many cores every number of workers is tried; beyond, each is a third more than the last."""

ROUNDS = 8
"""Of choosing the division of one kind after the other."""


@dataclass(frozen=True)
class Kind:
    """Machines that are alike.

    Args:
        name: Of the kind.
        count: Machines.
        cores: Of each.
        gpus: Of each, if its rates have a GPU; else 0.
        rates: What was measured on such a machine.
    """

    name: str
    count: int
    cores: int
    gpus: int
    rates: WorkerRates


@dataclass(frozen=True)
class Share:
    """Workers of each machine of a kind. Each has a core, and policy workers and trainers of a GPU one GPU."""

    actors: int
    policies: int
    trainers: int


@dataclass(frozen=True)
class Sizes:
    """Bytes and steps, by the task and the learner.

    Args:
        step_bytes: Of a step of an environment in a rollout.
        request_bytes: Of a request, for each environment; actors send it.
        answer_bytes: Of its answer, for each environment; policy workers send it.
        version_bytes: Of a version of the policy.
        horizon: T, control steps of a rollout.
        rollouts_of: Rollouts that a trainer takes for an update, by the numbers of actors and trainers.
        sums_s: Seconds of the sums of an update between so many hosts.
    """

    step_bytes: float
    request_bytes: int
    answer_bytes: int
    version_bytes: int
    horizon: int
    rollouts_of: Callable[[int, int], int]
    sums_s: Callable[[int], float]


@dataclass(frozen=True)
class ClusterSplit:
    """Machines of each kind, divided alike.

    Args:
        kinds: The machines.
        shares: How each machine of a kind is divided, in the same order.
        ring: Members of the ring of an actor.
        inline: Whether actors act for themselves.
        network: Between machines; None: there is one.
        sizes: Of the task and the learner.
    """

    kinds: tuple[Kind, ...]
    shares: tuple[Share, ...]
    ring: int
    inline: bool
    network: Network | None
    sizes: Sizes

    @cached_property
    def actors(self) -> int:
        """Of all machines."""
        return sum(kind.count * share.actors for kind, share in self.parts)

    @cached_property
    def policies(self) -> int:
        """Policy workers of all machines."""
        return sum(kind.count * share.policies for kind, share in self.parts)

    @cached_property
    def trainers(self) -> int:
        """Of all machines."""
        return sum(kind.count * share.trainers for kind, share in self.parts)

    @property
    def parts(self) -> list[tuple[Kind, Share]]:
        """Each kind with its division."""
        return list(zip(self.kinds, self.shares, strict=True))

    @property
    def training_hosts(self) -> int:
        """Machines with trainers."""
        return sum(kind.count for kind, share in self.parts if share.trainers)

    @cached_property
    def far_askers(self) -> int:
        """Actors that ask a policy worker of another machine."""
        if self.inline:
            return 0
        return sum(kind.count * share.actors for kind, share in self.parts if not share.policies)

    @cached_property
    def asked(self) -> float:
        """Steps/s that actors would make if policy workers answered any number of requests."""
        return sum(kind.count * share.actors * self.rate_of(kind, share) for kind, share in self.parts)

    def rate_of(self, kind: Kind, share: Share) -> float:
        """Steps/s of an actor of this kind, whose requests are answered at once in a full batch."""
        if self.inline:
            return kind.rates.inline
        if share.policies:
            waits_s = kind.rates.trip_s + _answer_s(kind, self.rows_at(kind, share))
        else:
            server, at = next(part for part in self.parts if part[1].policies)
            rows, network = self.rows_at(server, at), self.network
            assert network is not None  # as another machine has them
            both = self.sizes.request_bytes + self.sizes.answer_bytes  # one after the other
            sent_s = both * rows / network.speed.bytes_per_second
            waits_s = server.rates.trip_s + network.round_trip_ms / 1000 + sent_s + _answer_s(server, rows)
        return kind.rates.num_env / round_s(kind.rates, self.ring, waits_s)

    def rows_at(self, kind: Kind, share: Share) -> float:
        """Rows of a batch in which each actor of a policy worker has a member."""
        return kind.rates.num_env / self.ring * self.clients_at(share)

    def clients_at(self, share: Share) -> float:
        """Actors that a policy worker answers: its part of those of its machine, and of those that have none."""
        return share.actors / share.policies + self.far_askers / self.policies

    @cached_property
    def answered(self) -> float:
        """Steps/s for which policy workers can give actions, if each gets as many requests; infinite if inline."""
        if self.inline:
            return float("inf")
        busy = max(self.busy_at(kind, share) for kind, share in self.parts if share.policies)
        return self.asked / busy if busy else float("inf")

    def busy_at(self, kind: Kind, share: Share) -> float:
        """The part of its time that a policy worker would need for all that it is asked; above 1 it cannot."""
        near = share.actors / share.policies * self.rate_of(kind, share)
        far = sum(one.count * its.actors * self.rate_of(one, its) for one, its in self.parts if not its.policies)
        rows = self.rows_at(kind, share)
        return (near + far / self.policies) * _answer_s(kind, rows) / rows

    @property
    def produced(self) -> float:
        """Steps/s of all actors if they never wait for trainers."""
        return min(self.asked, self.answered)

    @cached_property
    def learnt(self) -> float:
        """Steps/s that all trainers can learn from. Each takes as many, so the slowest kind counts, and sums."""
        slowest_s = max(_update_s(kind) for kind, share in self.parts if share.trainers)
        update_s = self.trainer_samples * slowest_s + self.sizes.sums_s(self.training_hosts)
        return self.trainers * self.trainer_samples / update_s

    @cached_property
    def trainer_samples(self) -> int:
        """Samples that a trainer takes for an update."""
        rollouts = self.sizes.rollouts_of(self.actors, self.trainers)
        return rollouts * self.kinds[0].rates.num_env * self.sizes.horizon

    @property
    def updates_per_step(self) -> float:
        """Updates for each step of an environment."""
        return 1 / (self.trainers * self.trainer_samples)


def divided(kinds: Sequence[Kind], network: Network | None, sizes: Sizes, limit: "Limit") -> list[ClusterSplit]:
    """A good division inline, and remote by each ring, the fastest first.

    They are searched one kind after the other, so in few clusters a slightly faster one is missed.

    Args:
        kinds: The machines.
        network: Between them.
        sizes: Of the task and the learner.
        limit: Steps/s of a division, those of its slowest side first, then of the others in order.
    """
    ways = [(1, True), *((ring, False) for ring in RINGS if _has_ring(kinds, ring))]
    found = []
    for ring, inline in ways:
        options = [list(_shares(kind, kinds, inline)) for kind in kinds]
        best = [
            _climbed(ClusterSplit(tuple(kinds), tuple(of[0] for of in some), ring, inline, network, sizes), some, limit)
            for some in _searched(options, inline)
        ]
        found += sorted(filter(None, best), key=limit, reverse=True)[:1]
    return sorted(found, key=lambda one: (limit(one), one.inline, -one.ring), reverse=True)


Limit = Callable[[ClusterSplit], tuple[float, ...]]


def _searched(options: Sequence[Sequence[Share]], inline: bool) -> Iterator[list[list[Share]]]:
    """Options that are searched by themselves: any kinds train, or one alone; any answer, or one alone.

    Each part has shares with trainers and policy workers first. To move these from one kind to another two shares must
    change at once, which `_climbed` does not try.
    """
    alone = (None, *range(len(options)))
    for trains, answers in product(alone, [None] if inline else alone):
        some = [
            [
                one
                for one in of
                if (trains is None or bool(one.trainers) == (number == trains))
                and (answers is None or bool(one.policies) == (number == answers))
            ]
            for number, of in enumerate(options)
        ]
        if all(some):
            yield [sorted(of, key=lambda one: (not one.trainers, not one.policies)) for of in some]


def _climbed(split: ClusterSplit, options: Sequence[Sequence[Share]], limit: Limit) -> ClusterSplit | None:
    """Take the best share of one kind after the other, until none is better; None if nothing that works is found."""
    best = split
    for _ in range(ROUNDS):
        before = best
        for number, shares in enumerate(options):
            tried = [replace(best, shares=_with(best.shares, number, share)) for share in shares]
            best = max([best, *filter(_works, tried)], key=lambda one: limit(one) if _works(one) else ())
        if best.shares == before.shares:
            break
    return best if _works(best) else None


def _works(split: ClusterSplit) -> bool:
    """Whether there are trainers, and policy workers where actors need them."""
    return split.trainers > 0 and split.actors > 0 and (split.inline or split.policies > 0)


def _shares(kind: Kind, kinds: Sequence[Kind], inline: bool) -> Iterator[Share]:
    """The ways to divide a machine: trainers and policy workers take GPUs where there are some, else cores."""
    on_gpus = any(one.gpus for one in kinds)
    for trainers in [*range(kind.gpus + 1)] if on_gpus else [0, *_few(kind.cores)]:
        free = kind.gpus - trainers if kind.gpus else kind.cores - trainers
        for policies in [0] if inline else [0, *([*range(1, free + 1)] if kind.gpus else _few(free // 2))]:
            actors = kind.cores - trainers - policies
            if actors >= max(1, policies):
                yield Share(actors, policies, trainers)


def _few(most: int) -> list[int]:
    """Numbers from 1 to the most, in growing steps."""
    found = list(range(1, min(most, DENSE) + 1))
    while found and found[-1] < most:
        found.append(min(most, found[-1] + found[-1] // 3))
    return found


def _has_ring(kinds: Sequence[Kind], ring: int) -> bool:
    return all(kind.rates.num_env % (ring * kind.rates.agents) == 0 for kind in kinds)


def _with(shares: tuple[Share, ...], number: int, share: Share) -> tuple[Share, ...]:
    return (*shares[:number], share, *shares[number + 1 :])


def _answer_s(kind: Kind, rows: float) -> float:
    """Seconds of an answer of a policy worker on a machine of this kind."""
    return on_line(kind.rates.gpu.answers, rows) if kind.gpus and kind.rates.gpu else kind.rates.answer_s(rows)


def _update_s(kind: Kind) -> float:
    """Seconds of an update for each sample, of a trainer on a machine of this kind."""
    return kind.rates.gpu.update_s if kind.gpus and kind.rates.gpu else kind.rates.update_s
