"""What plays the policy of a run: ours, or rsl_rl's."""

import torch

from gmi_drl.config.learners import RslRlConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.serving.player import EpisodePlayer, Player, initial_agent, load_agent
from gmi_drl.roles.serving.policies_player import load_policies_player
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task


def load_player(
    folder: RunFolder,
    config: RunConfig,
    task: Task,
    *,
    seed: int = 0,
    stochastic: bool = False,
    untrained: bool = False,
) -> EpisodePlayer:
    """The policy of a run's newest checkpoint in the environments of its task, on the CPU.

    Args:
        folder: Of the run.
        config: Of the run.
        task: Its environments.
        seed: Of the noise.
        stochastic: Whether it acts with the noise of training.
        untrained: Whether it has learnt nothing.

    Raises:
        UsageError: as `load_agent`.
    """
    if isinstance(config.learner, RslRlConfig):
        from gmi_drl.roles.rsl_rl.player import RslRlPlayer

        return RslRlPlayer(task, folder, config, seed=seed, stochastic=stochastic, untrained=untrained)
    noise = torch.Generator().manual_seed(seed) if stochastic else None
    if config.policies:
        return load_policies_player(folder, config, task, noise, untrained=untrained)
    agent = initial_agent(task.spec, config) if untrained else load_agent(folder, task.spec, config)
    return Player(task, agent, noise)
