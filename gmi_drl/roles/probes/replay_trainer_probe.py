"""The probe of a trainer that learns from replay: measures all updates after a rollout."""

from collections.abc import Callable

import torch

from gmi_drl.algo.experience_batch import ReplayBatch
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.probes.replay_probe import without_burn_in
from gmi_drl.roles.probes.trainer_probe import TrainerProbe
from gmi_drl.roles.replay.channel_learner import ReplayChannelLearner
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats
from gmi_drl.workload import TaskSpec


class ReplayTrainerProbe(TrainerProbe):
    """An iteration is that of a trainer to whom one random rollout has come, alone: it draws whole batches."""

    def make_update(self, spec: TaskSpec, num_env: int) -> Callable[[], object]:
        """See `TrainerProbe`."""
        config, device = without_burn_in(self.config), self.mgr.device
        sizes = {"num_env": num_env, "version": 0, "seed": self.seed("learner")}
        learner = ReplayChannelLearner(spec, config, NoReduction(), device=device, **sizes)
        batch = random_rollout(config.learner.rollout_form(spec, num_env), device)

        def update() -> None:
            told = learner.take(batch, 0).cpu()
            sums = batch.sums.sum(0).cpu()
            learner.learn(IterationStats.from_sums(Decision.GO_ON, sums, batch.delta.cpu(), told=told[None]))

        return update


def random_rollout(form: RolloutForm, device: torch.device) -> ReplayBatch:
    """A random rollout without ends of episodes; actions by categories are the first of each."""
    batch, noise = ReplayBatch.empty(form, 1, device), torch.Generator(device).manual_seed(0)
    for numbers in (batch.obs, batch.reward, batch.last_obs, batch.next_obs):
        if numbers is not None and numbers.is_floating_point():
            numbers.normal_(generator=noise)
    batch.action[..., : form.action.numbers].uniform_(-1, 1, generator=noise)
    batch.valid.fill_(1.0)
    batch.delta[:, 0] = batch.reward.numel()
    return batch
