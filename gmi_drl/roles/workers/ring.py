"""The ring of an actor worker: parts of its environments that step in turn (SRL, section 3.1).

While one member waits for its actions, another steps. A rollout has the columns of all members.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from gmi_drl.algo.distributions import distribution_of
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.rollout import Rollout
from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.comm.streams import Answer
from gmi_drl.config.learners import OurConfig
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.episodes import Episodes, stagger
from gmi_drl.roles.workers.forward import ACT, VALUE, Tensors
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of


class Inference(Protocol):
    """Gives actions: `comm.streams.StreamClient` or `comm.streams.inline.InlineStream`."""

    requests: list[Tensors]
    wait_s: float

    def post(self, member: int, what: int = 0, version: int = 0) -> None:
        """See `StreamClient.post`."""

    def take(self, member: int) -> Answer:
        """See `StreamClient.take`."""


class Member:
    """One part of a ring's environments, with its columns of rollouts.

    Args:
        number: Its place in the ring.
        task: Its environments, on a CPU.
        inference: Gives their actions.
        bootstrap: Of the learner: which observation's value follows a time-out.
        state_size: Of the policy's memories; 0 without memories.
    """

    def __init__(self, number: int, task: Task, inference: Inference, bootstrap: str, state_size: int) -> None:
        self.number, self.task, self._inference, self._bootstrap = number, task, inference, bootstrap
        self.columns = slice(number * task.num_env, (number + 1) * task.num_env)
        self.state = torch.zeros(task.num_env, state_size) if state_size else None
        self.own: tuple[Tensor, Tensor] | None = None
        """Rewards and ends of the simulator itself in the last step, if it tells them."""

    def post(self, noise: Tensor, version: int) -> None:
        """Ask for actions, with the noise `[T's row, N, P]` of the ring, by this version or a later one."""
        request = self._inference.requests[self.number]
        request["obs"].copy_(self.task.obs)
        request["noise"].copy_(noise[self.columns])
        if self.state is not None:
            request["state"].copy_(self.state)
        self._inference.post(self.number, ACT, version)

    def take(self, rollout: Rollout, t: int) -> Answer:
        """Wait for the actions of step `t`, and write them into the rollout, with the observations."""
        answer, columns = self._inference.take(self.number), self.columns
        rollout.obs[t, columns] = self.task.obs
        rollout.action[t, columns] = answer.tensors["action"]
        rollout.log_prob[t, columns] = answer.tensors["log_prob"]
        if self.state is not None:
            self.state.copy_(answer.tensors["state"])
        return answer

    def step(self, rollout: Rollout, t: int) -> None:
        """Step the environments by these actions, and write what follows into the rollout."""
        columns = self.columns
        _, reward, terminated, truncated, info = self.task.step(rollout.action[t, columns])
        ended = terminated | truncated
        rollout.reward[t, columns], rollout.done[t, columns] = reward, ended
        rollout.valid[t, columns] = info["valid"]
        rollout.sums[4] += info["bad"].sum()
        self.own = (info["own_reward"], info["own_end"]) if "own_reward" in info else None
        timed_out = truncated & info["valid"]
        if timed_out.any():
            rollout.bootstrap[t, columns] = timed_out * self._value_after(info["final_obs"])
        if self.state is not None:
            self.state.masked_fill_(ended[:, None], 0)

    def _value_after(self, final_obs: Tensor) -> Tensor:
        """Values that follow time-outs: of the observation before the reset, or of the one acted on.

        The latter, and the state of memories before it, are still in the request.
        """
        if self._bootstrap == "final_obs":
            request = self._inference.requests[self.number]
            request["obs"].copy_(final_obs)
            if self.state is not None:
                request["state"].copy_(self.state)
        self._inference.post(self.number, VALUE)
        return self._inference.take(self.number).tensors["value"]


class Ring:
    """Fills rollouts; see `decoupled.agent.RolloutPlayer`.

    Args:
        tasks: Of the members, alike.
        inference: Gives their actions.
        config: Of the learner.
        generator: Of the noise.
        version: The version that the actions of the next rollout are by, or a later one.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        inference: Inference,
        config: OurConfig,
        generator: torch.Generator,
        version: Callable[[], int],
    ) -> None:
        spec, num_env = tasks[0].spec, sum(task.num_env for task in tasks)
        size = config.network.state_size(spec.observation)
        self.members = [Member(n, task, inference, config.bootstrap, size) for n, task in enumerate(tasks)]
        self._shape, self._generator, self._version = (config.horizon, num_env), generator, version
        self._distribution = distribution_of(spec.action)
        self._normaliser = Normaliser(spec.observation, torch.device("cpu"))  # for moments alone
        self._episodes = Episodes(num_env, torch.device("cpu"))
        self._terms = [terms for task in tasks if (terms := terms_of(task))]
        self._own: tuple[Tensor, Tensor] | None = None  # as of `Member.own`, `[T, N]` each
        self._answers: list[Answer] = []
        self._inference, self._waited_s = inference, 0.0
        for task in tasks:
            stagger(task, generator)

    @torch.no_grad()
    def collect(self, slot: Slot, clock: PhaseClock, after_step: Callable[[int], None]) -> None:
        """Play a rollout; for arguments see `training.actor.Actor.collect`. Waiting for actions counts as acting."""
        rollout, version = slot.rollout, self._version()
        horizon, _ = self._shape
        rollout.bootstrap.zero_()
        rollout.sums.zero_()
        self._answers.clear()
        noise = self._distribution.noise(self._shape, self._generator, torch.device("cpu"))
        for member in self.members:
            member.post(noise[0], version)
        for t in range(horizon):
            self._keep_state(rollout, t)
            for member in self.members:
                self._answers.append(member.take(rollout, t))
                clock.mark("act_s")
                member.step(rollout, t)
                clock.mark("sim_s")
                self._keep_own(t, member)
                if t + 1 < horizon:
                    member.post(noise[t + 1], version)
            after_step(t)
        self._keep_state(rollout, horizon)
        self._sum_up(rollout)

    def facts(self) -> dict[str, float]:
        """See `RolloutPlayer`: the oldest version, and what the answers of the last rollout were like."""
        rows, took_s = ([getattr(answer, name) for answer in self._answers] for name in ("rows", "took_s"))
        p50, p99 = np.percentile(took_s, (50, 99))
        first, last = self._answers[0], self._answers[-1]
        waited_s, self._waited_s = self._inference.wait_s - self._waited_s, self._inference.wait_s
        return {
            "version": min(answer.version for answer in self._answers),
            "rows": float(np.mean(rows)),
            "rows_p95": float(np.percentile(rows, 95)),
            "answer_p50_s": float(p50),
            "answer_p99_s": float(p99),
            "answers_wait_s": waited_s,
            "requests_wait_s": max(0.0, last.server_waited_s - first.server_waited_s),  # a successor counts anew
            "versions_wait_s": max(0.0, last.server_fetched_s - first.server_fetched_s),
        }

    def _keep_state(self, rollout: Rollout, t: int) -> None:
        """Store the states of memories if a sequence begins with step `t`, or if the rollout ends before it."""
        if rollout.state is not None and t % rollout.sequence == 0:
            for member in self.members:
                assert member.state is not None
                rollout.state[t // rollout.sequence, member.columns] = member.state

    def _keep_own(self, t: int, member: Member) -> None:
        if member.own is None:
            return
        if self._own is None:
            self._own = torch.zeros(self._shape), torch.zeros(self._shape)
        for numbers, told in zip(self._own, member.own, strict=True):
            numbers[t, member.columns] = told

    def _sum_up(self, rollout: Rollout) -> None:
        reward, done = self._own or (rollout.reward, rollout.done)
        rollout.sums[:4] = self._episodes.sum_up(reward, done, rollout.valid)
        for terms in self._terms:
            rollout.sums[5:] += terms.pop_sums()
        rollout.delta.copy_(self._normaliser.delta(rollout.obs))
        for member in self.members:
            rollout.last_obs[member.columns] = member.task.obs
