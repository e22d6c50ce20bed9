"""Agents and a trainer that take as long as the paper's for what they do, and do nothing but move it by channels.

A dummy sleeps while the other's GPU would work, and then does what our agents and trainers do on their processor:
lease, take a version, write each tensor of a step where the trainer reads it, tell of it; take a batch, publish a
version, give the batch back. Nothing is pickled, and of the two modes neither sleeps itself.
"""

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context

import torch

from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases.components.channel_ends import made_rollout, send
from gmi_drl.comm.channels import AgentEnd, ChannelSizes, create_memory, join_as_agent, join_as_trainer, packed_bytes
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.layout.layout import Channels
from gmi_drl.roles.main import die_with

HANG_S = 60.0
_PR_SET_TIMERSLACK, _SLACK_NS = 29, 1000
_FORK = get_context("fork")  # they inherit the descriptors


@dataclass(frozen=True)
class Rates:
    """How fast all dummies of a kind are together.

    Args:
        agents: How many act, on one core, since they mostly sleep.
        form: Of a rollout of each.
        predictions: Per second, of all agents; None if they have nothing else to do than to send.
        samples: That the trainer learns from per second; None if it only takes what comes.
        parameter_count: Of the policy that goes back.
    """

    agents: int
    form: RolloutForm
    predictions: float | None
    samples: float | None
    parameter_count: int

    @property
    def step_s(self) -> float:
        """Simulating and acting of one step of an agent's worlds."""
        return self.agents * self.form.num_env / self.predictions if self.predictions else 0.0

    @property
    def samples_of_update(self) -> int:
        """A rollout from each agent."""
        return self.agents * self.form.horizon * self.form.num_env

    @property
    def learn_s(self) -> float:
        """Of an update."""
        return self.samples_of_update / self.samples if self.samples else 0.0


class Dummies:
    """Agents in processes of their own, which go on as long as there is room, and the trainer in this one.

    Args:
        rates: Of all of them.
        mode: Of the channels: MCC or UCC.
        core: Of the agents.
        first: What the first agent does instead of `act_on`, as when somebody watches it.
    """

    def __init__(
        self, rates: Rates, mode: str, core: int, first: Callable[[AgentEnd, Rates], None] | None = None
    ) -> None:
        self.rates = rates
        self._weights = [torch.zeros(rates.parameter_count)]
        ids = tuple(range(1, rates.agents + 1))
        channels = Channels.model_validate({"mode": mode})
        self.sizes = ChannelSizes(rates.form, rates.agents, ids, (0,), channels, packed_bytes(self._weights))
        self._memory, self._mailboxes = create_memory(), create_mailboxes(range(1 + rates.agents))
        self._processes = [
            _FORK.Process(target=self._live, args=(gmi_id, core, os.getpid(), live), daemon=True)
            for gmi_id, live in zip(ids, [first or act_on, *[act_on] * (rates.agents - 1)], strict=True)
        ]
        for process in self._processes:
            process.start()
        self.end = join_as_trainer(self._memory, self._mailboxes, 0, self.sizes, HANG_S)
        self.end.parameters.publish(0, self._weights)
        precise_sleep()

    def measure(self, warm_up_s: float, seconds: float) -> Sample:
        """Samples that were trained on per second, which are as many as were predicted: room is bounded.

        Args:
            warm_up_s: Seconds that are not counted, until room is as full as it stays.
            seconds: That are.
        """
        self.learn(warm_up_s)
        waited_s, began, began_cpu = self.end.wait_s, time.perf_counter(), time.process_time()
        updates = self.learn(seconds)
        took_s = time.perf_counter() - began
        details = {
            "messages_per_second": updates * self.rates.agents * self.sizes.rollout_records / took_s,
            "trainers_cpu_s_of_update": (time.process_time() - began_cpu) / updates,
            "trainer_waits_s_of_update": (self.end.wait_s - waited_s) / updates,
        }
        return Sample(updates * self.rates.samples_of_update / took_s, details)

    def learn(self, seconds: float) -> int:
        """As a trainer does, but for the learning, until so many have gone by: the updates, one at least."""
        parameters, updates, until = self.end.parameters, 0, time.perf_counter() + seconds
        while not updates or time.perf_counter() < until:
            self.end.take()
            _work(self.rates.learn_s)
            parameters.publish(parameters.published(), self._weights)
            self.end.give_back()
            updates += 1
        return updates

    def close(self) -> None:
        """End them all."""
        for process in self._processes:
            process.kill()
            process.join()
        self.end.close()
        os.close(self._memory)
        self._mailboxes.close()

    def _live(self, gmi_id: int, core: int, parent: int, live: Callable[[AgentEnd, Rates], None]) -> None:
        die_with(parent)
        os.sched_setaffinity(0, [core])
        torch.set_num_threads(1)
        precise_sleep()
        live(join_as_agent(self._memory, self._mailboxes, gmi_id, self.sizes, HANG_S), self.rates)


def act_on(end: AgentEnd, rates: Rates) -> None:
    """Send one rollout after the other, without end."""
    act = actor(end, rates)
    while True:
        act()


def actor(end: AgentEnd, rates: Rates) -> Callable[[], None]:
    """Sends one rollout in each call. A step begins when what was seen in the last one is sent, as our agents do."""
    rollout, weights = made_rollout(rates.form), [torch.zeros(rates.parameter_count)]
    version: int | None = None

    def act() -> None:
        nonlocal version
        if version is None or end.parameters.newest_version() != version:
            version = end.parameters.read_into(weights)
        send(rollout, rates.form.horizon, end, lambda: _work(rates.step_s))

    return act


def _work(seconds: float) -> None:
    if seconds:
        time.sleep(seconds)


def precise_sleep() -> None:
    """Let sleeps of this process end in time: the kernel's usual slack is 50 us."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _SLACK_NS)
