"""The probe of a trainer: measures updates from random experience."""

from collections.abc import Callable
from functools import partial

import torch

from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.agent import Agent, make_agent
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.networks.memory import Past
from gmi_drl.config.run_config import a3c_of
from gmi_drl.cuda_graph import WARM_UP_CALLS
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.open_tasks import close_tasks
from gmi_drl.roles.probes.probe import Probe
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec


class TrainerProbe(Probe):
    """An iteration is one update from a random rollout with this many environments."""

    update: Callable[[], object] | None = None

    def iterate(self, decide: Callable[[], Decision]) -> Decision:
        """See `Probe`."""
        assert self.update is not None
        self._clock.start()
        self.update()
        self._clock.mark("learn_s")
        return decide()

    def phases(self) -> dict[str, float]:
        """See `Probe`."""
        return dict.fromkeys(PHASE_NAMES, 0.0) | self._clock.read()

    @property
    def warm_up_iterations(self) -> int:
        """See `Probe`: the first update allocates memory, so its time does not predict that of others."""
        return WARM_UP_CALLS + 1 if self.mgr.device.type == "cuda" and self.config.cuda_graphs else 2

    def detach_task(self) -> None:
        """See `Probe`."""
        self.update = None

    def attach_task(self, task: Task) -> None:
        """See `Probe`: only the task's sizes are needed, and it is closed."""
        close_tasks(self.mgr.tasks)
        self._clock = PhaseClock(self.mgr.device)
        self.update = self.make_update(task.spec, task.num_env)

    def make_update(self, spec: TaskSpec, num_env: int) -> Callable[[], object]:
        """What does an update from one rollout of these sizes."""
        learner = a3c_of(self.config)
        agent = make_agent(spec, learner, self.mgr.device, seed=self.config.seed)
        a3c = A3C(agent.policy, agent.normaliser, learner, cuda_graphs=self.config.cuda_graphs)
        return partial(a3c.update, random_experience(learner.rollout_form(spec, num_env), agent))


@torch.no_grad()
def random_experience(form: RolloutForm, agent: Agent) -> ExperienceBatch:
    """A random rollout whose actions are the agent's own.

    Actions that it would never sample make gradients of subnormal numbers, whose products take longer.
    """
    device = agent.normaliser.mean.device
    batch, noise = ExperienceBatch.empty(form, 1, device), torch.Generator(device).manual_seed(0)
    for numbers in (batch.obs, batch.action, batch.reward, batch.last_obs):
        if numbers.is_floating_point():
            numbers.normal_(generator=noise)
        else:  # bytes: zeros where they are float32 numbers of a packed row
            numbers.zero_()
    batch.valid.fill_(1.0)
    distribution = agent.policy.distribution
    drawn = batch.action if distribution.entropy_is_constant else distribution.noise(batch.reward.shape, noise, device)
    if batch.state is None:
        action, params = agent.policy.act(agent.normaliser(batch.obs), drawn)
    else:
        steps = agent.normaliser(batch.obs)[0].flatten(0, 1)
        past = Past(batch.state[0, 0], batch.done.flatten())
        params = agent.policy.remember(steps, past).params.view(*batch.reward.shape, -1)
        action = distribution.sample(params, agent.policy.log_std, drawn)
    batch.action.copy_(action)
    batch.log_prob.copy_(agent.policy.log_prob(action, params))
    return batch
