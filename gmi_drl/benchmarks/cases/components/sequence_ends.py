"""Two GMIs that learn a sequence policy, for benchmarks: this process and another, a core each if there are two."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from gmi_drl.algo.sequence import Contexts, Sequence
from gmi_drl.algo.sequence_agent import make_sequence_agent
from gmi_drl.benchmarks.case import Sample
from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.links.sockets import SocketLink
from gmi_drl.comm.membership import Membership
from gmi_drl.config.learners import SequenceConfig
from gmi_drl.replay import EpisodeSet
from gmi_drl.replay.shards import Weighted
from gmi_drl.roles.main import die_with
from gmi_drl.roles.sequence.draws import Draws, scaling_of
from gmi_drl.workload import TASK_SPECS

HANG_S = 120.0
SPEC = TASK_SPECS["ant"]
_FORK = get_context("fork")  # the child inherits the listening sockets

_End = tuple[RankAddresses, int]  # of a link: the addresses of both, the descriptor where this one listens


class DrawsWhenNeeded(Draws):
    """The same batches, each made when it is asked for."""

    def draw(self) -> Contexts:
        """See `Draws`."""
        began, shards = time.perf_counter(), self._shards
        indices = shards.select(self._batch, Weighted())
        window = shards.random_starts(self._batch), self._context
        fields, lengths = shards.collect(indices, self._columns, window=window, split=True)
        self.wait_s += time.perf_counter() - began
        return self._contexts(fields, lengths)


class LearnerPair:
    """Both GMIs. They sum their gradients, as in a training: else the faster one would wait for data in its place.

    Args:
        folder: Of the episodes.
        is_ahead: Whether batches are made ahead.
        cores: Of each; they may be the same. This process stays on the first.
    """

    def __init__(self, folder: Path, is_ahead: bool, cores: tuple[int, int]) -> None:
        with ExitStack() as listening:
            wires = [[listening.enter_context(closing(listen())) for _ in range(2)] for _ in range(2)]
            addresses = [
                RankAddresses(tuple(one.getsockname() for one in wire), secrets.token_hex(16)) for wire in wires
            ]
            ends = [list(zip(addresses, (wire[rank].fileno() for wire in wires), strict=True)) for rank in range(2)]
            self._orders, theirs = _FORK.Pipe()
            other = (theirs, ends[1], folder, is_ahead, cores[1], os.getpid())
            self._process = _FORK.Process(target=_serve, args=other, daemon=True)
            self._process.start()
            os.sched_setaffinity(0, cores[:1])
            self._learner = _Learner(0, ends[0], folder, is_ahead)

    def measure(self, updates: int) -> Sample:
        """The part of the updates' seconds in which a GMI waited: of the one that waited longer."""
        self._orders.send(updates)
        both = self._learner.learn(updates), self._orders.recv()
        seconds, waited_s = max(both, key=lambda one: one[1] / one[0])
        return Sample(waited_s / seconds, {"update_s": seconds / updates, "wait_s": waited_s / updates})

    def close(self) -> None:
        """End the other process."""
        self._process.kill()
        self._process.join()
        self._orders.close()


def episodes_of(count: int, steps: int) -> Iterator[dict[str, Tensor]]:
    """Random episodes of Ant's sizes."""
    for _ in range(count):
        obs, action = torch.randn(steps + 1, SPEC.observation.size), torch.rand(steps, SPEC.action.size)
        yield {"obs": obs, "action": action, "reward": torch.rand(steps)}


class _Learner:
    def __init__(self, rank: int, ends: list[_End], folder: Path, is_ahead: bool) -> None:
        torch.set_num_threads(1)
        link, self._sums = (SocketLink(Membership(rank, [[0], [1]], hang_s=HANG_S), *end) for end in ends)
        config, episodes = SequenceConfig(), EpisodeSet(folder)
        draws = Draws if is_ahead else DrawsWhenNeeded
        self._draws = draws(episodes, link, context=config.context, batch=config.batch, exponent=0.0, seed=0)
        agent = make_sequence_agent(SPEC, config, torch.device("cpu"), seed=0)
        agent.normaliser.load(scaling_of(episodes, None))
        self._updater = Sequence(agent, config, share=self._draws.share, reduce=self._sum)
        self._theirs = torch.empty_like(self._updater.flat.bucket)

    def learn(self, updates: int) -> tuple[float, float]:
        """Seconds of these updates, and those in which it waited for contexts."""
        waited_s, began = self._draws.wait_s, time.perf_counter()
        for _ in range(updates):
            self._updater.update(self._draws.draw())
        return time.perf_counter() - began, self._draws.wait_s - waited_s

    def _sum(self, bucket: Tensor) -> None:
        other = 1 - self._sums.rank
        self._sums.exchange(bucket, other, self._theirs, other)
        bucket += self._theirs


def _serve(orders: Connection, ends: list[_End], folder: Path, is_ahead: bool, core: int, parent: int) -> None:
    die_with(parent)
    os.sched_setaffinity(0, [core])
    learner = _Learner(1, ends, folder, is_ahead)
    while True:
        orders.send(learner.learn(orders.recv()))
