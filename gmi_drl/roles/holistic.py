"""The holistic role: simulator, agent and trainer on one GMI (TCG_EX, paper section 5.1, Figure 6a)."""

import time
from pathlib import Path
from typing import Any

import torch

from gmi_drl.algo.flat import tensor_digest
from gmi_drl.algo.rollout import share_of
from gmi_drl.config import load_config
from gmi_drl.errors import GmiError
from gmi_drl.roles.agreement import News, Word
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.replica import AnyReplica, Replica, seed_of
from gmi_drl.roles.words import Stop
from gmi_drl.roles.worlds import make_worlds
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.presence import pinned
from gmi_drl.tasks import Task

LEARNER_PART = "learner"


class Holistic(DRL_role):
    """Trains a policy together with the other GMIs of its group: iterate, report, save."""

    replica: AnyReplica

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """Train until the iterations, the time or the launcher's patience end. Returns where the run stands."""
        index = checkpoint.read_index(Path(resume)) if resume else {"iteration": 0, "env_steps": 0}
        iteration, self.env_steps = index["iteration"], index["env_steps"]
        self._set_up(iteration)
        if resume:
            self._restore(Path(resume), index)
        self._prove_disk(iteration, is_new=resume is None)
        word, self.started = Word.GO_ON, time.monotonic()
        while iteration < self.config.iterations and word is not Word.STOP:
            iteration += 1
            news = self.replica.iterate(self._decide)
            self._report(iteration, news)
            word = news.word
            if word is Word.STOP or self._is_due(iteration):
                self._save(iteration)
        return {"iteration": iteration, "stopped": word is Word.STOP}

    def _set_up(self, start: int) -> None:
        """Make the parts of this GMI for iterations after `start`. Policies start alike, worlds and noise do not."""
        self.folder = RunFolder(self.mgr.run_folder)
        self.checkpoints = pinned(self.folder.checkpoints)  # what takes its place may be another run's
        self.config = load_config(self.folder.config_file)
        self.reduction = self.mgr.reduction(self.group)
        task_seed = self.seed(start, "task")
        torch.manual_seed(task_seed)  # some simulators draw from torch's own generator
        task = make_worlds(self.mgr, self.config, self.mgr.gmi.num_env, task_seed)
        self.replica = self.make_replica(task, start)

    def seed(self, start: int, purpose: str) -> int:
        """What this GMI draws from for a purpose ("task", "agent", "learner") in iterations after `start`."""
        return seed_of(self.config, start, self.GMI_id, purpose)

    def make_replica(self, task: Task, start: int) -> AnyReplica:
        """The replica that trains in these worlds from iteration `start` on. A subclass may bring another learner."""
        replica = Replica(
            task.spec,
            self.config,
            self.reduction,
            share=self.share,
            device=self.mgr.device,
            seed=self.seed(start, "learner"),
        )
        replica.take(task, self.seed(start, "agent"))
        return replica

    @property
    def share(self) -> float:
        """Samples that this GMI learns from divided by those of the whole group."""
        group = [self.divided(gmi.num_env) for gmi in self.mgr.layout.gmis]
        return share_of(self.divided(self.mgr.gmi.num_env), group, self.config.learner.minibatches)

    def divided(self, num_env: int) -> int:
        """How many things of so many environments are dealt out to the mini-batches: transitions."""
        return num_env * self.config.learner.horizon

    def _decide(self) -> Word:
        """What rank 0 says to all: the launcher's words, or that the time is over."""
        limit_s = self.config.time_limit_s
        is_over = limit_s is not None and time.monotonic() - self.started >= limit_s
        return Word.STOP if is_over or Stop() in self.mgr.line.words() else Word.GO_ON

    def _is_due(self, iteration: int) -> bool:
        return iteration % self.config.checkpoint_every == 0 or iteration == self.config.iterations

    def _report(self, iteration: int, news: News) -> None:
        """One row to the launcher. Waits for the device, once."""
        steps = self.config.learner.horizon * self.mgr.layout.num_env
        self.env_steps += steps
        row = {"gmi": self.GMI_id, "iteration": iteration, "env_steps": self.env_steps, **self.replica.phases()}
        row["clock_s"] = time.monotonic()
        if self.reduction.group.rank == 0:
            row |= {
                "reward_mean": news.reward_sum / steps,
                "episodes": news.episodes,
                "return_sum": news.return_sum,
                "length_sum": news.length_sum,
                "bad_worlds": news.bad_worlds,
                **self.replica.metrics(),
            }
        self.mgr.report(row)

    def _save(self, iteration: int) -> None:
        """Save a checkpoint together: each GMI its own part, rank 0 the learner, which must be the same everywhere."""
        digest = self._write_parts(iteration)
        if self.reduction.group.rank == 0:
            self._commit(iteration, digest)
        self.reduction.group.barrier()

    def _prove_disk(self, iteration: int, is_new: bool) -> None:
        """Write a whole checkpoint before minutes are spent. A new run keeps it as its first."""
        digest = self._write_parts(iteration)
        if self.reduction.group.rank == 0:
            draft = checkpoint.draft(self.checkpoints, iteration)
            checkpoint.require_room(draft, self.config.checkpoints_kept + 1)
            if is_new:
                self._commit(iteration, digest)
            checkpoint.drop_drafts(self.checkpoints)
        self.reduction.group.barrier()

    def _write_parts(self, iteration: int) -> str:
        """All parts of a draft. Returns the digest of what all replicas must hold alike."""
        learner = self.replica.learner_state()
        digest = tensor_digest(*learner.values())
        self._check_replicas(digest, iteration)
        draft = checkpoint.draft(self.checkpoints, iteration)
        checkpoint.write_part(draft, f"gmi-{self.GMI_id}", self.replica.worlds_state())
        if self.reduction.group.rank == 0:
            checkpoint.write_part(draft, LEARNER_PART, learner)
        self.reduction.group.barrier()
        return digest

    def _commit(self, iteration: int, digest: str) -> None:
        facts = {
            "env_steps": self.env_steps,
            "layout": self.mgr.layout.digest,
            "num_env": self.mgr.layout.num_env,
            "learner": digest,
            "learning_rate": self.config.learner.learning_rate,
        }
        checkpoint.commit(self.checkpoints, iteration, facts, self.config.checkpoints_kept)

    def _check_replicas(self, digest: str, iteration: int) -> None:
        """Replicas that have parted are a fault that training would hide."""
        digests = self.reduction.group.gather(torch.tensor([float(int(digest[:12], 16))], dtype=torch.float64))
        if (digests != digests[0]).any():
            raise GmiError(
                f"iteration {iteration}: the GMIs no longer hold the same learner (digests differ): please report this"
            )

    def _restore(self, saved: Path, index: dict[str, Any]) -> None:
        """Continue from a checkpoint: on the same layout bit-identically, on another one with fresh worlds.

        The learning rate goes on as it was adapted, unless the configuration has been given another one since.
        """
        self.replica.load_learner_state(checkpoint.read_part(saved, LEARNER_PART))
        if index["learning_rate"] != self.config.learner.learning_rate:
            self.replica.set_learning_rate(self.config.learner.learning_rate)
        if index["layout"] == self.mgr.layout.digest:
            self.replica.load_worlds_state(checkpoint.read_part(saved, f"gmi-{self.GMI_id}"))
