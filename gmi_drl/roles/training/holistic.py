"""The holistic role: simulator, agent and trainer on one GMI (TCG_EX, paper section 5.1, Figure 6a)."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gmi_drl.algo.rollout import sample_share_of
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiError
from gmi_drl.layout.layout import GMI
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.launcher.protocol import Hold, Holds, MessageToGMI, Save, Stop
from gmi_drl.roles.open_tasks import open_task
from gmi_drl.roles.seeds import seed_of
from gmi_drl.roles.training.checkpointer import Checkpointer
from gmi_drl.roles.training.evaluation import Evaluation, share_of, unchanged_generators
from gmi_drl.roles.training.iteration_stats import Decision, IterationStats
from gmi_drl.roles.training.nan_guard import NanGuard
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.roles.training.replica import Replica
from gmi_drl.run.checkpoint import BEST, EVALUATED, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import Task
from gmi_drl.tasks.terms import terms_of


class Holistic(DRL_role):
    """Trains a policy together with the other GMIs of its group: iterate, report, save."""

    replica: Replica

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """Train until the iterations are done, or the launcher sends `Stop`. Returns the last iteration.

        Args:
            resume: The checkpoint to go on from, a path within the run folder.
        """
        saved = self.mgr.run_folder / resume if resume else None
        index = read_index(saved, ()) if saved else {"iteration": 0, "env_steps": 0}  # parts are checked when read
        iteration, self.env_steps = index["iteration"], index["env_steps"]
        self._set_up(iteration)
        self._set_up_evaluation(iteration, index.get(BEST))
        if saved:
            self.restore(saved, index)
        growth = self.growth_bytes()
        self.checkpointer.prove_disk(self.replica, iteration, self.env_steps, keep=resume is None, growth=growth)
        decision = Decision.GO_ON
        while iteration < self.config.iterations and decision is not Decision.STOP:
            iteration += 1
            rate = self.config.learner.rate_at(iteration, self.config.iterations)
            if rate is not None:
                self.replica.set_learning_rate(rate)
            stats = self.replica.iterate(partial(self._decide, iteration))
            evaluated = self._evaluate(iteration)
            self._report(iteration, stats, evaluated)
            decision = stats.decision
            self._save_if_due(iteration, decision, evaluated.get("eval_return_mean"))
        return {"iteration": iteration, "stopped": decision is Decision.STOP}

    def _set_up(self, start: int) -> None:
        """Make the parts of this GMI for iterations after `start`."""
        self.folder = RunFolder(self.mgr.run_folder)
        self.config = self.mgr.configure()
        self.reduction = self.mgr.reduction(self.group)
        self.checkpointer = Checkpointer(
            self.mgr.checkpoint_store(),
            self.mgr.layout,
            self.GMI_id,
            self.reduction.group,
            self.config,
            export=self.export,
        )
        self._nan_guard = NanGuard(self.config.learner)
        self._asked: list[Stop | Save] = []  # for later iterations
        self.set_up_replica(start)

    def set_up_replica(self, start: int) -> None:
        """Open the task and make the replica. All GMIs start with the same policy, but with other seeds."""
        task_seed = self.seed(start, "task")
        torch.manual_seed(task_seed)  # some simulators draw from torch's own generator
        task = open_task(self.mgr, self.config, self.mgr.gmi.num_env, task_seed)
        self.terms = terms_of(task)
        self.replica = self.make_replica(task, start)

    def restore(self, saved: Path, index: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.checkpointer.restore(self.replica, saved, index)

    def seed(self, start: int, purpose: str) -> int:
        """This GMI's seed for a purpose ("task", "agent", "learner") in the iterations after `start`."""
        return seed_of(self.config, start, self.GMI_id, purpose)

    def make_replica(self, task: Task, start: int) -> Replica:
        """The replica that trains in this task from iteration `start` on. A subclass may use another learner."""
        replica = PPOReplica(
            task.spec,
            self.config,
            self.reduction,
            sample_share=self.sample_share,
            device=self.mgr.device,
            seed=self.seed(start, "learner"),
        )
        replica.attach_task(task, self.seed(start, "agent"))
        return replica

    def export(self, folder: Path, iteration: int) -> Sequence[Path]:
        """Write files for other tools into the run's folder, beside a checkpoint; on rank 0. Returns their paths.

        Here there are none.
        """
        return ()

    def growth_bytes(self) -> int:
        """Bytes by which this GMI's part of a checkpoint may become larger while it trains; here 0."""
        return 0

    @property
    def sample_share(self) -> float:
        """Samples that this GMI learns from divided by those of the whole group."""
        members = [self.mgr.layout.gmis[gmi_id] for gmi_id in self.group.members]
        group = [self.divided(self.num_env_of(gmi)) for gmi in members]
        mine = self.divided(self.num_env_of(self.mgr.gmi))
        return sample_share_of(mine, group, self.config.learner.minibatches)

    def num_env_of(self, gmi: GMI) -> int:
        """The number of environments whose samples a GMI of the group learns from."""
        return gmi.num_env

    def divided(self, num_env: int) -> int:
        """How many units `num_env` environments give that mini-batches divide among them."""
        return self.config.learner.units_of(num_env)

    def _decide(self, iteration: int) -> Decision:
        """Stop or save after this iteration if the launcher asks for that; save if a checkpoint is late."""
        words = self.mgr.launcher.messages()
        if Hold() in words:
            words += self._hold(iteration)
        self._asked += [word for word in words if isinstance(word, Stop | Save)]
        due = [word for word in self._asked if word.after <= iteration]
        self._asked = [word for word in self._asked if word.after > iteration]
        if any(isinstance(word, Stop) for word in due):
            return Decision.STOP
        return Decision.SAVE if due or self.checkpointer.is_late() else Decision.GO_ON

    def _hold(self, iteration: int) -> list[MessageToGMI]:
        """Wait until the launcher has told all policies what to do. Returns what it has told this one.

        Raises:
            GmiError: if it has not within `hang_s`.
        """
        self.mgr.launcher.deliver(Holds(iteration))
        words, waiting = list[MessageToGMI](), WaitClock()
        while not any(isinstance(word, Stop | Save) for word in words):
            if waiting.look() > self.mgr.hang_s:
                late = f"the launcher has not told for {self.mgr.hang_s:g} s when all policies stop or save"
                raise GmiError(f"{late}: if it was suspended, raise hang_s; continue by --resume")
            words += self.mgr.launcher.await_messages(1.0)
        return words

    def _set_up_evaluation(self, start: int, best: float | None) -> None:
        """Open this GMI's environments for evaluations, if the run has any."""
        self.evaluation: Evaluation | None = None
        if self.config.eval_every is not None:
            group = self.reduction.group
            num_env = share_of(self.config.eval_num_env, group.rank, group.size)
            with unchanged_generators(self.mgr.device):
                task = open_task(self.mgr, self.config, num_env, self.seed(start, "evaluation"))
            self.evaluation = Evaluation(group, task, best)

    def _evaluate(self, iteration: int) -> dict[str, float]:
        """Evaluate the policy if it is time, and return what the row has of it."""
        if self.evaluation is None or iteration % (self.config.eval_every or 1):
            return {}
        return self.evaluation.play(self.replica.policy())

    def _save_if_due(self, iteration: int, decision: Decision, mean: float | None) -> None:
        """Save a checkpoint if one is due, or if the evaluation with this mean return is the best."""
        is_best = self.evaluation is not None and mean is not None and self.evaluation.is_best(mean)
        is_due = is_best or decision is Decision.STOP or self.checkpointer.is_due(iteration)
        if not is_due and decision is not Decision.SAVE:
            return
        best = self.evaluation.best if self.evaluation else None
        returns = {name: value for name, value in ((EVALUATED, mean), (BEST, best)) if value is not None}
        self.checkpointer.save(self.replica, iteration, self.env_steps, exports=is_due, returns=returns)

    def _report(self, iteration: int, stats: IterationStats, evaluated: Mapping[str, float]) -> None:
        """Send the launcher one row. Waits for the device, once."""
        steps = self.config.learner.steps_of(self.mgr.layout)
        self.env_steps += steps
        row = {"gmi": self.GMI_id, "iteration": iteration, "env_steps": self.env_steps, **self.replica.phases()}
        row["clock_s"] = time.monotonic()
        if self.reduction.group.rank == 0:
            metrics = self.replica.metrics()
            self._nan_guard.check(iteration, metrics)
            row |= {
                "reward_mean": stats.reward_sum / steps,
                "episodes": stats.episodes,
                "return_sum": stats.return_sum,
                "length_sum": stats.length_sum,
                "bad_environments": stats.bad_environments,
                **metrics,
                **stats.metrics,
                **evaluated,
                **(self.terms.row(stats.term_sums, steps) if self.terms else {}),
            }
        self.mgr.report(row)
