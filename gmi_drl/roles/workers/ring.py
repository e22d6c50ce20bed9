"""The ring of an actor worker: parts of its environments that step in turn (SRL, section 3.1).

While one member waits for its actions, another steps. A rollout has the columns of all members.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.algo.rollout_slot import Slot
from gmi_drl.config.learners import OurConfig
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.episodes import stagger
from gmi_drl.roles.workers.requester import Inference
from gmi_drl.roles.workers.share import Outcome, Share
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of


class Part(Protocol):
    """The rows of a ring that one policy acts in: a `Share`, or those of a policy that learns nothing."""

    rows: Tensor | None

    def take(self, member: int, t: int) -> Tensor:
        """See `Share.take`."""

    def post(self, member: int, t: int) -> None:
        """See `Share.post`."""

    def write(self, member: int, t: int, outcome: Outcome) -> None:
        """See `Share.write`."""

    def keep_states(self, t: int) -> None:
        """See `Share.keep_states`."""


def play(
    tasks: Sequence[Task],
    parts: Sequence[Part],
    horizon: int,
    clock: PhaseClock,
    after_step: Callable[[int], None] = lambda t: None,
    after_member: Callable[[int, Outcome], None] = lambda member, outcome: None,
) -> None:
    """Play `horizon` steps of all members in turn. The parts have begun; waiting for actions counts as acting.

    Args:
        tasks: Of the members.
        parts: Of each policy, which together have all rows.
        horizon: T.
        clock: Counts seconds of acting and of simulating.
        after_step: Called when all members have taken step `t`.
        after_member: Called when a member has taken a step, with what it has brought.
    """
    for t in range(horizon):
        for part in parts:
            part.keep_states(t)
        for member, task in enumerate(tasks):
            action = _joined([(part.rows, part.take(member, t)) for part in parts], task.num_env)
            clock.mark("act_s")
            _, reward, terminated, truncated, info = task.step(action)
            clock.mark("sim_s")
            outcome = Outcome(reward, terminated, truncated, info)
            for part in parts:
                part.write(member, t, outcome)
                part.post(member, t + 1)
            after_member(member, outcome)
        after_step(t)


class Ring:
    """Fills rollouts of one policy; see `decoupled.agent.RolloutPlayer`.

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
        self._tasks, self._horizon = tasks, config.horizon
        self._share = Share(tasks, inference, config, generator, version, pop_sums=sums_of(tasks))
        for task in tasks:
            stagger(task, generator)
        self.facts = self._share.facts

    @torch.no_grad()
    def collect(self, slot: Slot, clock: PhaseClock, after_step: Callable[[int], None]) -> None:
        """Play a rollout; for arguments see `training.actor.Actor.collect`. Waiting for actions counts as acting."""
        self._share.begin(slot.rollout)
        play(self._tasks, [self._share], self._horizon, clock, after_step)
        self._share.end()


def sums_of(tasks: Sequence[Task]) -> Callable[[], Tensor] | None:
    """A function that returns the sums of reward terms of all tasks since its last call; None if they tell none."""
    terms = [terms for task in tasks if (terms := terms_of(task))]
    return (lambda: torch.stack([one.pop_sums() for one in terms]).sum(0)) if terms else None


def _joined(actions: Sequence[tuple[Tensor | None, Tensor]], num_env: int) -> Tensor:
    """The actions of all rows, from those of each policy's rows."""
    (rows, first), *_ = actions
    if rows is None:
        return first
    whole = first.new_zeros(num_env, first.shape[1])
    for rows, action in actions:
        assert rows is not None
        whole[rows] = action
    return whole
