"""Dummy agents and a dummy trainer that move experience through channels at the paper's rates, and do nothing else.

A dummy sleeps while a GPU would work. Then it does what our agents and trainers do on their cores. An agent leases a
slot, reads the newest parameters, writes each tensor of a step where the trainer reads it, and sends the message. The
trainer takes a batch, publishes parameters and gives the batch back. Nothing is pickled. The channels themselves do not
sleep in either mode.
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
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.main import die_with

HANG_S = 60.0
_PR_SET_TIMERSLACK, _SLACK_NS = 29, 1000
_FORK = get_context("fork")  # the children inherit the descriptors


@dataclass(frozen=True)
class Rates:
    """The rates of the dummies.

    Args:
        agents: Number of agents, on one core, because they mostly sleep.
        form: The form of an agent's rollout.
        predictions: Predictions of all agents per second; None if agents only send.
        samples: Samples that the trainer learns from per second; None if it only receives.
        parameter_count: Parameters of the policy, which goes back to the agents.
    """

    agents: int
    form: RolloutForm
    predictions: float | None
    samples: float | None
    parameter_count: int

    @property
    def step_s(self) -> float:
        """Seconds of simulation and acting for one step of an agent's environments."""
        return self.agents * self.form.num_env / self.predictions if self.predictions else 0.0

    @property
    def samples_of_update(self) -> int:
        """Samples of a rollout from each agent."""
        return self.agents * self.form.horizon * self.form.num_env

    @property
    def learn_s(self) -> float:
        """Seconds of learning in an update."""
        return self.samples_of_update / self.samples if self.samples else 0.0


class Dummies:
    """Agents in processes of their own, which send while there are free slots, and the trainer in this process.

    Args:
        rates: The rates of the dummies.
        mode: Mode of the channels: MCC or UCC.
        core: The agents' core.
        first: What the first agent runs instead of `act_on`, to profile it for example.
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
        """Samples that were trained on per second. As buffers are bounded, as many were predicted.

        Args:
            warm_up_s: Seconds that are not counted, until the buffers are as full as they stay.
            seconds: Seconds that are counted.
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
        """Do what a trainer does, without learning, for `seconds`. Returns the number of updates, at least one."""
        parameters, updates, until = self.end.parameters, 0, time.perf_counter() + seconds
        while not updates or time.perf_counter() < until:
            self.end.take()
            _work(self.rates.learn_s)
            parameters.publish(parameters.published(), self._weights)
            self.end.give_back()
            updates += 1
        return updates

    def close(self) -> None:
        """End all processes, and free what they share."""
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
    """Send one rollout after another, forever."""
    act = actor(end, rates)
    while True:
        act()


def actor(end: AgentEnd, rates: Rates) -> Callable[[], None]:
    """A function that sends one rollout per call. Like our agents, it begins a step when the last one is sent."""
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
    """Let this process' sleeps end within a microsecond: the kernel's usual slack is 50 us."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _SLACK_NS)
