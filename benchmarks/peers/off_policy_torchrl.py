"""torchrl: DQN and SAC by its collector, its buffer of tensors, its losses and its targets.

It collects as many steps before each set of updates as its own scripts or the zoo: 256 with DQN, 1000 with SAC.
"""

from argparse import Namespace
from collections.abc import Iterable

import numpy as np
import torch
from off_policy_settings import ENVIRONMENTS, HIDDEN, MAX_GRAD_NORM, SAC, ZOO, Progress, read_off_policy_arguments
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import DoubleToFloat, TransformedEnv
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import MLP, EGreedyModule, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import DQNLoss, HardUpdate, SACLoss, SoftUpdate

SAC_STEPS = 1000
"""Between two sets of updates, in torchrl's own script."""


class Dqn:
    """The network of values, its target and Adam.

    Attributes:
        policy: Acts with noise.
        steps: Of the environment before each set of updates.
        updates: Of such a set.
    """

    steps, updates = ZOO["train_freq"], ZOO["gradient_steps"]

    def __init__(self, arguments: Namespace, world: TransformedEnv) -> None:
        spec = world.action_spec_unbatched
        self.net = MLP(
            world.observation_spec["observation"].shape[-1], spec.n, num_cells=HIDDEN, activation_class=nn.ReLU
        )
        actor = QValueActor(module=self.net, spec=spec, in_keys=["observation"])
        explores = int(ZOO["exploration_fraction"] * arguments.env_steps)
        self._noise = EGreedyModule(spec, 1.0, ZOO["exploration_final_eps"], explores)
        self.policy = TensorDictSequential(actor, self._noise)
        self._loss = DQNLoss(actor, loss_function="smooth_l1", delay_value=True)
        self._loss.make_value_estimator(gamma=ZOO["gamma"])
        self._target = HardUpdate(self._loss, value_network_update_interval=0)
        self._adam = torch.optim.Adam(self.net.parameters(), lr=ZOO["learning_rate"])
        self.buffer = buffer_of(ZOO["buffer_size"], ZOO["batch_size"])

    def networks(self) -> Iterable[nn.Module]:
        """Those that learn."""
        return [self.net]

    def greedy(self, obs: np.ndarray) -> int:
        """The action without noise."""
        return int(self.net(torch.from_numpy(obs)).argmax())

    def collected(self, steps: int) -> None:
        """So many steps have been collected: noise falls, and the target gets the weights."""
        self._noise.step(steps)
        self._target.step()

    def update(self) -> None:
        """One update."""
        loss = self._loss(self.buffer.sample())["loss"]
        self._adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), MAX_GRAD_NORM)
        self._adam.step()


class Sac:
    """The policy, two critics with targets, and the weight of the entropy. Attributes are those of `Dqn`."""

    def __init__(self, arguments: Namespace, world: TransformedEnv) -> None:
        self.steps = self.updates = min(SAC_STEPS, arguments.learning_starts)
        spec, num_obs = world.action_spec_unbatched, world.observation_spec["observation"].shape[-1]
        (actions,) = spec.shape
        layers = MLP(num_obs, 2 * actions, num_cells=HIDDEN, activation_class=nn.ReLU)
        self._net = nn.Sequential(layers, NormalParamExtractor())
        self.policy = ProbabilisticActor(
            TensorDictModule(self._net, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"],
            spec=spec,
            distribution_class=TanhNormal,
            distribution_kwargs={"low": spec.space.low, "high": spec.space.high},
        )
        critic = MLP(num_obs + actions, 1, num_cells=HIDDEN, activation_class=nn.ReLU)
        value = ValueOperator(critic, in_keys=["action", "observation"])
        self._loss = SACLoss(self.policy, value, num_qvalue_nets=2, loss_function="l2", alpha_init=1.0)
        self._loss.make_value_estimator(gamma=SAC["gamma"])
        self._target = SoftUpdate(self._loss, tau=SAC["tau"])
        self._adam = torch.optim.Adam(self._loss.parameters(), lr=SAC["learning_rate"])
        self.buffer = buffer_of(SAC["buffer_size"], SAC["batch_size"])

    def networks(self) -> Iterable[nn.Module]:
        """Those that learn, but the weight of the entropy."""
        return [self._net, self._loss.qvalue_network_params]

    def greedy(self, obs: np.ndarray) -> np.ndarray:
        """The action without noise."""
        return self._net(torch.from_numpy(obs).float())[0].tanh().numpy()

    def collected(self, steps: int) -> None:
        """So many steps have been collected."""

    def update(self) -> None:
        """One update: the losses' gradients do not meet, so that one step of Adam does all."""
        losses = self._loss(self.buffer.sample())
        self._adam.zero_grad()
        (losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]).backward()
        self._adam.step()
        self._target.step()


def buffer_of(size: int, batch: int) -> TensorDictReplayBuffer:
    """A replay of uniform samples."""
    return TensorDictReplayBuffer(storage=LazyTensorStorage(size), batch_size=batch)


def main() -> None:
    """Train for a number of steps; some lines have the mean return of episodes without noise, also the last one."""
    arguments = read_off_policy_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    world = TransformedEnv(GymEnv(ENVIRONMENTS[arguments.algo], categorical_action_encoding=True), DoubleToFloat())
    world.set_seed(arguments.seed)
    learner = {"dqn": Dqn, "sac": Sac}[arguments.algo](arguments, world)
    progress = Progress(arguments, torch.no_grad()(learner.greedy), weights_of(learner))
    collector = Collector(
        world,
        learner.policy,
        frames_per_batch=learner.steps,
        total_frames=arguments.env_steps,
        init_random_frames=arguments.learning_starts,
    )
    steps = 0
    for batch in collector:
        steps += batch.numel()
        learner.buffer.extend(batch.reshape(-1))
        learner.collected(batch.numel())
        for _ in range(learner.updates if steps > arguments.learning_starts else 0):
            learner.update()
        progress.stepped(steps)
        if progress.updates.is_over:
            break
    progress.end(steps)
    collector.shutdown()


def weights_of(learner: Dqn | Sac) -> int:
    """How many the networks have, without targets."""
    return sum(weights.numel() for network in learner.networks() for weights in network.parameters())


if __name__ == "__main__":
    main()
