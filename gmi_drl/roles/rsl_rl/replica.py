"""The replica of a training by rsl_rl."""

import io
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import torch
from tensordict import TensorDict
from torch import Tensor

from gmi_drl.comm.reduction import Reduction
from gmi_drl.config.learners import RslRlConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.files import write_atomically
from gmi_drl.roles.rsl_rl.group import GroupRunner
from gmi_drl.roles.rsl_rl.metrics import IterationMetrics
from gmi_drl.roles.rsl_rl.state_dict import pack, unpack
from gmi_drl.roles.training.evaluation import Act
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats, exchange_stats
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks import Task
from gmi_drl.tasks.rsl_rl_env import RslRlEnv
from gmi_drl.tasks.task import groups_of
from gmi_drl.tasks.terms import terms_of


class RslRlReplica:
    """A `Replica` that calls rsl_rl's runner, one iteration at a time.

    Args:
        task: The environments.
        config: Of the run, with rsl_rl as learner.
        reduction: Of the group.
        sample_share: Samples that this GMI learns from divided by those of the whole group.
        seed: Of this GMI's noise and mini-batches. Rank 0 does not use it: it goes on with the current state of torch's
            generator, so that a single GMI draws the same numbers as rsl_rl's own runner after the same task was made.
        log_dir: Where the configuration's `logger` writes, if it names one; None for no logger.
    """

    def __init__(
        self,
        task: Task,
        config: RunConfig,
        reduction: Reduction,
        *,
        sample_share: float,
        seed: int,
        log_dir: Path | None,
    ) -> None:
        self.group = reduction.group
        assert isinstance(config.learner, RslRlConfig)
        train_cfg = config.learner.runner
        self.env = RslRlEnv(task, config.learner.reward_scale, train_cfg.get("clip_actions"))
        writes = reduction.group.rank == 0 and train_cfg.get("logger")
        states = reduction.group.gather(torch.get_rng_state().double())
        torch.set_rng_state(states[0].byte())  # equal policies at the start: networks are drawn on the CPU
        self.runner = GroupRunner(
            self.env, train_cfg, reduction=reduction, sample_share=sample_share, log_dir=log_dir if writes else None
        )
        self.iteration_metrics = IterationMetrics(self.env, self.runner.logger, config.iterations)
        self.iteration_metrics.open()
        self.runner.logger = self.iteration_metrics
        if reduction.group.rank > 0:
            torch.manual_seed(seed)  # rsl_rl draws all numbers from torch's own generator
        self._stagger()
        self.steps = train_cfg["num_steps_per_env"] * task.num_env
        self.sim_s = self.learn_wait_s = self.sync_s = 0.0

    def iterate(self, decide: Callable[[], Decision]) -> IterationStats:
        """Collect and learn, then exchange. `decide` is called before the exchange; rank 0's result counts, for all."""
        simulated_s, waited_s = self.env.sim_s, self.group.wait_s
        self.runner.learn(1)
        self.runner.current_learning_iteration += 1  # `learn` leaves the number of the iteration that is done
        self.sim_s, self.learn_wait_s = self.env.sim_s - simulated_s, self.group.wait_s - waited_s
        sums = self.iteration_metrics.pop_sums()
        moments = torch.zeros_like(sums[:3])  # only the count: rsl_rl normalises advantages by itself
        moments[0] = self.steps - sums[-1]
        if terms := terms_of(self.env.task):
            sums = torch.cat((sums, terms.pop_sums()))
        stats = exchange_stats(self.group, decide(), sums, moments, sums.new_empty(0))
        self.sync_s = self.group.wait_s - waited_s
        return stats

    def phases(self) -> dict[str, float]:
        """Seconds of the last iteration by phase (`phases.PHASES`), by the clock of the host.

        Waiting within gloo, for the KL, the learning rate and the observation statistics, counts as learning.
        """
        return {
            "sim_s": self.sim_s,
            "act_s": self.iteration_metrics.collect_s - self.sim_s,
            "learn_s": self.iteration_metrics.learn_s - self.learn_wait_s,
            "sync_s": self.sync_s,
        }

    def metrics(self) -> dict[str, float | str]:
        """Means over the mini-batches of this GMI's last update, learning rate, noise; `warning` if there is one."""
        losses = dict(self.iteration_metrics.losses)
        named = {"surrogate_loss": losses.pop("surrogate"), "entropy": losses.pop("entropy")}
        others = {f"{name}_loss": loss for name, loss in losses.items()}
        noise = self.runner.alg.get_policy().output_std.mean().item()
        now = {"learning_rate": self.runner.alg.learning_rate, "action_std": noise}
        warning = {"warning": self.iteration_metrics.warnings.pop(0)} if self.iteration_metrics.warnings else {}
        return {**named, **others, **now, **warning}

    def set_learning_rate(self, rate: float) -> None:
        """Go on with another learning rate."""
        self.runner.alg.learning_rate = rate
        for group in self.runner.alg.optimizer.param_groups:
            group["lr"] = rate

    def policy(self) -> Act:
        """See `Replica`. It is a copy: in the policy itself a memory belongs to the environments of the training."""
        policy = deepcopy(self.runner.alg.get_policy()).eval()
        policy.reset()
        clip = self.env.clip_actions

        def act(task: Task, begins: Tensor, reward: Tensor, valid: Tensor) -> Tensor:
            if policy.is_recurrent:
                policy.reset(begins)
            actions: Tensor = policy(TensorDict(groups_of(task), batch_size=[task.num_env]))
            return actions if clip is None else actions.clamp(-clip, clip)

        return act

    def learner_state(self) -> dict[str, Tensor]:
        """The state that must be equal on all replicas: the one that rsl_rl saves."""
        return pack({**self.runner.alg.save(), "iter": self.runner.current_learning_iteration})

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `learner_state`."""
        saved = unpack(state)
        self.runner.alg.load(saved, None, True)
        self.set_learning_rate(self.runner.alg.optimizer.param_groups[0]["lr"])  # 5.4.0 does not restore it
        self.runner.current_learning_iteration = saved["iter"]

    def local_state(self) -> dict[str, Tensor]:
        """Everything but the policy that the next rollout depends on: task, generators, running episodes."""
        own = {"episode": self.iteration_metrics.running_episodes, "generator": torch.get_rng_state()}
        if self.env.device.type == "cuda":
            own["cuda_generator"] = torch.cuda.get_rng_state(self.env.device)
        return prefixed("task", self.env.task.state_dict()) | own

    def load_local_state(self, state: dict[str, Tensor]) -> None:
        """Continue from `local_state`, bit-identically unless the networks have a memory."""
        task_state = with_prefix("task", state)
        self.env.task.load_state_dict(task_state)
        self.iteration_metrics.running_episodes.copy_(state["episode"])
        if not task_state:  # the task has no state to save: all episodes are new
            self.iteration_metrics.running_episodes.zero_()
            self._stagger()
        torch.set_rng_state(state["generator"])
        if self.env.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_generator"], self.env.device)

    def export(self, path: Path) -> None:
        """Write a `model_*.pt` for rsl_rl's own runner. We never read it, since it is a pickle."""
        content = io.BytesIO()
        iteration = self.runner.current_learning_iteration
        torch.save({**self.runner.alg.save(), "iter": iteration, "infos": None}, content)
        write_atomically(path, content.getvalue())
        self.iteration_metrics.save_model(str(path), iteration)

    def _stagger(self) -> None:
        """Begin each episode at a random count of steps, as rsl_rl does, so that not all end at once."""
        task = self.env.task
        if not task.counts_by_itself:
            self.env.episode_length_buf = torch.randint_like(task.episode_length, high=task.spec.episode_steps)
