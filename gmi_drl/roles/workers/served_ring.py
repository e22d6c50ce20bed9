"""The ring of a served actor: its members step in turn, and nobody learns from them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gmi_drl.algo.distributions import distribution_of
from gmi_drl.config.learners import OurConfig
from gmi_drl.roles.serving.episode_sums import EpisodeSums
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.workers.requester import Inference, Requester
from gmi_drl.roles.workers.ring import Part, play
from gmi_drl.roles.workers.share import Outcome
from gmi_drl.run.phases import ACT, WAIT
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import own_outcome


class ServedShare(Requester):
    """A policy's rows of all members of a ring, from which nobody learns. See `ring.Part`.

    Args:
        tasks: Of the members, alike, on a CPU.
        inference: Gives actions. A member's requests have its rows.
        config: Of the policy's learner.
        generators: Of each member's noise; None to act by the mode.
        rows: Int64, the rows of each task that the policy acts in; None: all.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        inference: Inference,
        config: OurConfig,
        generators: Sequence[torch.Generator | None],
        rows: Tensor | None = None,
    ) -> None:
        super().__init__(tasks, inference, config, rows)
        self._distribution, self._generators, self._steps = distribution_of(tasks[0].spec.action), generators, 0
        self._zeros = torch.zeros(self._each, tasks[0].spec.action.params)

    @property
    def wait_s(self) -> float:
        """Seconds waited so far for answers."""
        return self._inference.wait_s

    def begin(self, steps: int) -> None:
        """Begin a block of steps: post the requests for the first."""
        self._steps = steps
        for member in range(len(self._tasks)):
            self.post(member, 0)

    def post(self, member: int, t: int) -> None:
        """Ask for a member's actions of step `t`, if the block has it."""
        if t < self._steps:
            self._ask(member, self._draw(self._generators[member]))

    def take(self, member: int, t: int) -> Tensor:
        """Wait for a member's actions."""
        return self._answer(member).tensors["action"]

    def write(self, member: int, t: int, outcome: Outcome) -> None:
        """Begin anew in rows whose episodes have ended."""
        self._forget(member, self._of(outcome.terminated | outcome.truncated))

    def keep_states(self, t: int) -> None:
        """Do nothing: nobody learns from its states."""

    def _draw(self, generator: torch.Generator | None) -> Tensor:
        if generator is None:
            return self._zeros
        return self._distribution.noise((self._each,), generator, self._zeros.device)


class ServedRing:
    """Steps the members of a ring in turn, in blocks. See `serving.service.Service`.

    Args:
        tasks: Of the members, alike, on a CPU.
        shares: Ask for the actions, each for the rows of its policy.
        others: Act in the other rows, without asking.
    """

    def __init__(self, tasks: Sequence[Task], shares: Sequence[ServedShare], others: Sequence[Part] = ()) -> None:
        self.num_env = sum(task.num_env for task in tasks)
        self._tasks, self._shares, self._parts = tasks, shares, [*shares, *others]
        self._clock, self._waited_s = PhaseClock(tasks[0].device), 0.0
        self._counts = [[_sums_of(part, task) for task in tasks] for part in self._parts]

    @property
    def sums(self) -> Tensor:
        """See `EpisodeSums`: of all members."""
        return torch.stack(self.sums_of_parts).sum(0)

    @property
    def sums_of_parts(self) -> list[Tensor]:
        """See `EpisodeSums`: of the rows of each share, then of the others."""
        return [torch.stack([count.sums for count in counts]).sum(0) for counts in self._counts]

    @torch.no_grad()
    def play(self, steps: int) -> None:
        """Play a block of control steps of all members."""
        self._clock.start()
        for share in self._shares:
            share.begin(steps)
        play(self._tasks, self._parts, steps, self._clock, after_member=self._count)
        self._clock.mark(ACT.name)

    def phases(self) -> dict[str, float]:
        """Seconds of the last block by phase; waiting for answers is not acting."""
        before, self._waited_s = self._waited_s, sum(share.wait_s for share in self._shares)
        phases, waited_s = self._clock.read(), self._waited_s - before
        return {**phases, ACT.name: max(0.0, phases[ACT.name] - waited_s), WAIT.name: waited_s}

    def latencies(self) -> list[float]:
        """Seconds of each step of all members in the last block."""
        laps, members = self._clock.laps("sim_s"), len(self._tasks)
        return [sum(laps[first : first + members]) for first in range(0, len(laps), members)]

    def _count(self, member: int, outcome: Outcome) -> None:
        reward, terminated, truncated, info = outcome
        whole = *own_outcome(reward, terminated | truncated, info), info["valid"], info["bad"]
        for part, counts in zip(self._parts, self._counts, strict=True):
            counts[member].add(*(one if part.rows is None else one[part.rows] for one in whole))


def _sums_of(part: Part, task: Task) -> EpisodeSums:
    return EpisodeSums(task.num_env if part.rows is None else len(part.rows), task.device)
