"""The part of a ring that one policy acts in: its agents' rows of each member, and the rollout of these rows."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gmi_drl.algo.distributions import distribution_of
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.streams import Answer
from gmi_drl.config.learners import OurConfig
from gmi_drl.roles.training.episodes import Episodes
from gmi_drl.roles.workers.forward import VALUE
from gmi_drl.roles.workers.requester import Inference, Requester
from gmi_drl.tasks import Task


class Outcome(NamedTuple):
    """What a step of a member's environments has brought, `[N]` of all their rows; see `Task.step`."""

    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    info: dict[str, Tensor]


class Share(Requester):
    """A policy's rows of all members of a ring: asks for their actions, and fills a rollout `[T, N]` with them.

    Args:
        tasks: Of the members, alike, on a CPU.
        inference: Gives actions. A member's requests have its rows.
        config: Of the policy's learner.
        generator: Of the noise.
        version: The version that the actions of the next rollout are by, or a later one.
        rows: Int64, the rows of each task that the policy acts in; None: all.
        pop_sums: Returns the sums of reward terms since its last call, of all tasks; None: there are none.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        inference: Inference,
        config: OurConfig,
        generator: torch.Generator,
        version: Callable[[], int],
        rows: Tensor | None = None,
        pop_sums: Callable[[], Tensor] | None = None,
    ) -> None:
        super().__init__(tasks, inference, config, rows)
        spec, each, num_env = tasks[0].spec, self._each, self._each * len(tasks)
        self._columns = [slice(member * each, (member + 1) * each) for member in range(len(tasks))]
        self._bootstrap, self._shape = config.bootstrap, (config.horizon, num_env)
        self._generator, self._version = generator, version
        self._distribution = distribution_of(spec.action)
        self._normaliser = Normaliser(spec.observation, torch.device("cpu"))  # for moments alone
        self._episodes, self._pop_sums = Episodes(num_env, torch.device("cpu")), pop_sums
        self._own: tuple[Tensor, Tensor] | None = None  # rewards and ends of the simulator itself, `[T, N]` each
        self._answers: list[Answer] = []
        self._waited_s = 0.0

    def begin(self, rollout: Rollout) -> None:
        """Fill this rollout from now on: post the requests for its first step."""
        self._rollout, self._wanted = rollout, self._version()
        rollout.bootstrap.zero_()
        rollout.sums.zero_()
        self._answers.clear()
        self._noise = self._distribution.noise(self._shape, self._generator, torch.device("cpu"))
        for member in range(len(self._tasks)):
            self.post(member, 0)

    def post(self, member: int, t: int) -> None:
        """Ask for a member's actions of step `t`, if the rollout has it."""
        if t < len(self._noise):
            self._ask(member, self._noise[t, self._columns[member]], self._wanted)

    def take(self, member: int, t: int) -> Tensor:
        """Wait for a member's actions of step `t`, and write them into the rollout, with the observations."""
        answer, columns, rollout = self._answer(member), self._columns[member], self._rollout
        rollout.obs[t, columns] = self._seen(member)
        rollout.action[t, columns] = answer.tensors["action"]
        rollout.log_prob[t, columns] = answer.tensors["log_prob"]
        self._answers.append(answer)
        return rollout.action[t, columns]

    def write(self, member: int, t: int, outcome: Outcome) -> None:
        """Write what has followed these actions into the rollout."""
        columns, rollout, info = self._columns[member], self._rollout, outcome.info
        truncated, valid = self._of(outcome.truncated), self._of(info["valid"])
        ended = self._of(outcome.terminated) | truncated
        rollout.reward[t, columns], rollout.done[t, columns] = self._of(outcome.reward), ended
        rollout.valid[t, columns] = valid
        rollout.sums[4] += self._of(info["bad"]).sum()
        if "own_reward" in info:
            self._keep_own(t, columns, self._of(info["own_reward"]), self._of(info["own_end"]))
        timed_out = truncated & valid
        if timed_out.any():
            rollout.bootstrap[t, columns] = timed_out * self._value_after(member, self._of(info["final_obs"]))
        self._forget(member, ended)

    def keep_states(self, t: int) -> None:
        """Store the states of memories if a sequence begins with step `t`, or if the rollout ends before it."""
        if self._states is not None and t % self._rollout.sequence == 0:
            assert self._rollout.state is not None
            self._rollout.state[t // self._rollout.sequence] = torch.cat(self._states)

    def end(self) -> None:
        """Complete the rollout after its last step."""
        rollout = self._rollout
        self.keep_states(len(self._noise))
        reward, done = self._own or (rollout.reward, rollout.done)
        rollout.sums[:4] = self._episodes.sum_up(reward, done, rollout.valid)
        if self._pop_sums is not None:
            rollout.sums[5:] += self._pop_sums()
        rollout.delta.copy_(self._normaliser.delta(rollout.obs))
        for member, columns in enumerate(self._columns):
            rollout.last_obs[columns] = self._seen(member)

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

    def _value_after(self, member: int, final_obs: Tensor) -> Tensor:
        """Values that follow time-outs: of the observation before the reset, or of the one acted on.

        The latter, and the state of memories before it, are still in the request.
        """
        if self._bootstrap == "final_obs":
            request = self._inference.requests[member]
            request["obs"].copy_(final_obs)
            if self._states is not None:
                request["state"].copy_(self._states[member])
        self._inference.post(member, VALUE)
        return self._inference.take(member).tensors["value"]

    def _keep_own(self, t: int, columns: slice, reward: Tensor, ended: Tensor) -> None:
        if self._own is None:
            self._own = torch.zeros(self._shape), torch.zeros(self._shape)
        self._own[0][t, columns], self._own[1][t, columns] = reward, ended
