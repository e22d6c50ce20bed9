"""One iteration end to end: actor and learner of a GMI share a ring.

act       `horizon` times: policy -> task.step -> ring                        roles/replay/actor.py, replay/ring.py
exchange  one gather of sums, the rings' weights and rank 0's decision        roles/replay/exchange.py
learn     `updates_per_step` x `horizon` times: sample -> gradient            roles/replay/learner.py
          -> sum over the group -> Adam -> priorities                         algo/dqn.py, algo/sac.py
"""

import gc
from collections.abc import Callable

import torch
from torch import Tensor

from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.run_config import RunConfig
from gmi_drl.cuda_graph import WARM_UP_CALLS
from gmi_drl.replay import Ring
from gmi_drl.roles.precision import flush_denormals
from gmi_drl.roles.replay.actor import ReplayActor
from gmi_drl.roles.replay.exchange import exchange
from gmi_drl.roles.replay.learner import RingLearner, off_policy_of
from gmi_drl.roles.replay.make_ring import make_ring
from gmi_drl.roles.replay.ring_state import load_ring, saved_tensors
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.roles.seeds import SEEDS
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats
from gmi_drl.roles.training.replica import LearnerReplica
from gmi_drl.tasks import Task
from gmi_drl.workload import TaskSpec


class ReplayReplica(LearnerReplica):
    """Trains by DQN or SAC; see `Replica`.

    Args:
        spec: Of the task.
        config: Of the run.
        reduction: Of the group.
        num_env: Environments of this GMI.
        group_num_env: Those of all GMIs that train together.
        device: Of all tensors.
        seed: Of what is drawn, and of the noise of updates.
    """

    learner: RingLearner

    def __init__(
        self,
        spec: TaskSpec,
        config: RunConfig,
        reduction: Reduction,
        *,
        num_env: int,
        group_num_env: int,
        device: torch.device,
        seed: int,
    ) -> None:
        flush_denormals()
        self.config, self.off_policy, self.seed = config, off_policy_of(config), seed
        self.group_num_env = group_num_env
        batch = self._batch_of(num_env)
        super().__init__(RingLearner(spec, config, reduction, batch=batch, device=device, seed=seed), device)

    def attach_task(self, task: Task, seed: int) -> None:
        """Act in this task from now on, into an empty ring; `seed` is of the noise of actions."""
        off_policy = self.off_policy
        self.learner.draw(self._batch_of(task.num_env))
        noise = torch.Generator(self.device).manual_seed(seed)
        self.actor = ReplayActor(
            task,
            self.learner.agent,
            off_policy.horizon,
            noise,
            keeps_obs=off_policy.normalise,
            cuda_graphs=self.config.cuda_graphs,
        )
        of_ring = (self.seed + 1) % SEEDS  # other numbers than those of the updates' noise
        self.ring: Ring | ServerRing
        if off_policy.replay.server is None:
            self.ring = make_ring(task.spec, off_policy, task.num_env, self.group_num_env, self.device, of_ring)
        else:
            self.ring = ServerRing(off_policy, task.spec, task.num_env, self.learner.group.size, self.device)
        self._no_delta = torch.zeros(0, dtype=torch.float64, device=self.device)

    def _batch_of(self, num_env: int) -> int:
        """This GMI's part of the batch."""
        return max(1, round(self.off_policy.batch * num_env / self.group_num_env))

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """Act, exchange, learn. `decide` is called before the exchange; rank 0's result counts, for all."""
        actor, learner, ring = self.actor, self.learner, self.ring
        self.clock.start()
        waited_s = learner.group.wait_s

        # Act: simulator and agent in turn, each step into the ring
        actor.collect(ring, self.clock, lambda t: learner.updater.explore(t * self.group_num_env))
        learner.updater.steps += actor.horizon * self.group_num_env

        # Exchange what every GMI must know alike
        delta = self._no_delta if actor.obs is None else learner.agent.normaliser.delta(actor.obs)
        stats, rings = exchange(learner.group, decide(), actor.sums, ring, learner.largest, learner.online, delta)

        # Learn: every update's gradients are summed over the group
        learner.update(ring, rings, stats.deltas)
        self.clock.mark("learn_s")
        self.sync_s = learner.group.wait_s - waited_s
        return stats

    def detach_task(self) -> None:
        """Release the task, which the caller closes, and all that was made for it."""
        if isinstance(self.ring, ServerRing):
            self.ring.close()
        del self.actor, self.ring
        self.learner.forget_batches()
        gc.collect()  # an actor is part of a cycle

    @property
    def warm_up_iterations(self) -> int:
        """Iterations until all take equally long: the ring gets its first windows, graphs are captured."""
        first = -(-(self.off_policy.replay.n_step + 1) // self.off_policy.horizon)
        captures = self.device.type == "cuda" and self.config.cuda_graphs
        return first + (WARM_UP_CALLS + 1 if captures else 1)

    def local_state(self) -> dict[str, Tensor]:
        """The state of this replica alone: its task, running episodes, generators, and its ring, if that is saved."""
        is_first, steps = self.learner.group.rank == 0, self.learner.updater.steps
        ring = saved_tensors(self.ring, steps, is_first=is_first) if self.off_policy.replay.saved else {}
        return {**self.actor.state_dict(), **self.learner.local_state(), **ring}

    def growth_bytes(self) -> int:
        """Bytes, at most, by which `local_state` becomes larger until the ring is full."""
        if isinstance(self.ring, ServerRing):
            return 0
        return self.off_policy.growth_bytes(self.actor.task.spec, self.ring.free)

    def load_local_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `local_state`, bit-identically if the ring was saved."""
        self.learner.load_local_state(state)
        goes_on = self.actor.load_state_dict(state)
        load_ring(self.ring, state, goes_on=goes_on)
