"""Playing a policy that rsl_rl has trained."""

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from gmi_drl.roles.serving.player import EpisodePlayer, load_newest_learner
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import groups_of


class RslRlPlayer(EpisodePlayer):
    """Steps a task with the policy of a run of rsl_rl.

    Args:
        task: On the CPU.
        folder: Of the run.
        config: Of the run.
        seed: Of the noise, and of the networks if they are untrained.
        stochastic: Whether it acts with the noise of training.
        untrained: Whether the networks stay as rsl_rl makes them.

    Attributes:
        policy: rsl_rl's own model.
        clip: Bound of the actions that the task receives; None for no bound but the task's own.
    """

    def __init__(
        self, task: Task, folder: RunFolder, config: RunConfig, *, seed: int, stochastic: bool, untrained: bool
    ) -> None:
        super().__init__(task)
        self.stochastic, self._iteration = stochastic, 0
        folder.require_task(task.spec)
        learner = None if untrained else load_newest_learner(folder)  # before rsl_rl, which takes seconds
        lengths = task.episode_length.clone()
        torch.manual_seed(seed)
        with redirect_stdout(StringIO()):  # rsl_rl prints its networks
            replica = RslRlReplica(task, config, NoReduction(), sample_share=1.0, seed=seed, log_dir=None)
        task.episode_length.copy_(lengths)  # a training staggers its first episodes
        if learner is not None:
            self._iteration, state = learner
            replica.load_learner_state(state)
        self.policy: Any = replica.runner.alg.get_policy().eval()
        self.policy.reset()
        self.clip: float | None = replica.env.clip_actions

    @property
    def iteration(self) -> int:
        """See `EpisodePlayer`."""
        return self._iteration

    @torch.no_grad()
    def actions(self) -> Tensor:
        """See `EpisodePlayer`."""
        obs = TensorDict(groups_of(self.task), batch_size=[self.task.num_env])
        actions: Tensor = self.policy(obs, stochastic_output=self.stochastic)
        return actions if self.clip is None else actions.clamp(-self.clip, self.clip)

    def receive(self, reward: Tensor, valid: Tensor) -> None:
        """See `EpisodePlayer`: rewards do not count for its actions."""

    def forget(self, ended: Tensor) -> None:
        """See `EpisodePlayer`."""
        if self.policy.is_recurrent and ended.any():
            self.policy.reset(ended)
