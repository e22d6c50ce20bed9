"""One iteration end to end: the policy acts, then learns from recorded episodes.

act       `horizon` times: context -> policy -> task.step                     roles/sequence/actor.py
exchange  one gather of sums and rank 0's decision                            roles/training/iteration_stats.py
learn     `updates` times: a part of a batch of contexts -> gradient          roles/sequence/draws.py, algo/sequence.py
          -> sum over the group -> Adam
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gmi_drl.algo.sequence import Contexts, Sequence
from gmi_drl.algo.sequence_agent import make_sequence_agent
from gmi_drl.comm.links.link import MovingLink
from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.learners import SequenceConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.replay.episodes import EpisodeSet
from gmi_drl.roles.precision import flush_denormals
from gmi_drl.roles.sequence.actor import SequenceActor
from gmi_drl.roles.sequence.draws import Draws, scaling_of
from gmi_drl.roles.training.agent_learner import AgentLearner
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats, exchange_stats
from gmi_drl.roles.training.replica import LearnerReplica
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec


class SequenceReplica(LearnerReplica):
    """Trains a sequence policy; see `Replica`.

    Args:
        spec: Of the task.
        config: Of the run.
        reduction: Of the group.
        link: To the shards of the group.
        device: Of all tensors but the recorded episodes.

    Raises:
        UsageError: The episodes are not there, or not of this task.
    """

    def __init__(
        self, spec: TaskSpec, config: RunConfig, reduction: Reduction, link: MovingLink, *, device: torch.device
    ) -> None:
        flush_denormals()
        self.config, self.settings = config, sequence_of(config)
        self.group = reduction.group
        if self.settings.data is None:
            raise UsageError("there are no episodes to learn from: set learner.data")
        self.episodes = EpisodeSet(self.settings.data)
        self.episodes.require(spec)
        self.draws = Draws(
            self.episodes,
            link,
            context=self.settings.context,
            batch=self.settings.batch,
            exponent=self.settings.return_exponent,
            seed=config.seed,
        )
        self.agent = make_sequence_agent(spec, self.settings, device, seed=config.seed)
        self._scale()
        self.updater = Sequence(
            self.agent,
            self.settings,
            share=self.draws.share,
            reduce=reduction.reduce,
            make_bucket=reduction.bucket,
        )
        super().__init__(AgentLearner(self.agent, self.updater), device)
        self.data_wait_s = 0.0

    def attach_task(self, task: Task, seed: int) -> None:
        """Act in this task from now on."""
        generator = torch.Generator(self.device).manual_seed(seed)
        horizon, graphs = self.settings.horizon, self.config.cuda_graphs
        self.actor = SequenceActor(task, self.agent, horizon, generator, cuda_graphs=graphs)
        self._no_delta = torch.zeros(0, dtype=torch.float64, device=self.device)

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """Act, exchange, learn. `decide` is called before the exchange; rank 0's result counts, for all."""
        actor, updater = self.actor, self.updater
        self.clock.start()
        waited_s, data_waited_s = self.group.wait_s, self.draws.wait_s

        actor.play(self.clock)

        moments = torch.stack((actor.steps, torch.zeros_like(actor.steps), torch.zeros_like(actor.steps)))
        stats = exchange_stats(self.group, decide(), actor.sums, moments, self._no_delta)

        updater.begin()
        for _ in range(self.settings.updates):
            updater.update(self._on_device(self.draws.draw()))
        self.clock.mark("learn_s")
        self.data_wait_s = self.draws.wait_s - data_waited_s
        self.sync_s = self.group.wait_s - waited_s
        return stats

    def metrics(self) -> dict[str, float]:
        """The loss of the last updates, the learning rate, and the wait for contexts. Synchronises with the host."""
        return {**super().metrics(), "data_wait_s": self.data_wait_s}

    def learner_state(self) -> dict[str, Tensor]:
        """The state that must be equal on all replicas."""
        return {**super().learner_state(), **prefixed("drawn", self.draws.state_dict())}

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `learner_state`. The return to ask for is that of the settings."""
        super().load_learner_state(state)
        self.draws.load_state_dict(with_prefix("drawn", state))
        self._scale()

    def local_state(self) -> dict[str, Tensor]:
        """The state of this replica alone: its task, contexts and running episodes."""
        return self.actor.state_dict()

    def load_local_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `local_state`, bit-identically."""
        self.actor.load_state_dict(state)

    def close(self) -> None:
        """Leave the shards of the group, after as many iterations on all."""
        self.draws.close()

    def _scale(self) -> None:
        self.agent.normaliser.load(scaling_of(self.episodes, self.settings.target_return))

    def _on_device(self, contexts: Contexts) -> Contexts:
        if self.device.type == "cpu":
            return contexts
        return Contexts(*(getattr(contexts, name).to(self.device) for name in ("to_go", "obs", "action", "is_step")))


def sequence_of(config: RunConfig) -> SequenceConfig:
    """The settings of the sequence policy.

    Raises:
        UsageError: if the run has another learner.
    """
    if not isinstance(config.learner, SequenceConfig):
        raise UsageError(f"this is for learner.kind sequence, the run has {config.learner.kind}")
    return config.learner
