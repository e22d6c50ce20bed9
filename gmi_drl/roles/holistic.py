"""The holistic role: simulator, agent and trainer on one GMI (TCG_EX, paper section 5.1, Figure 6a)."""

import hashlib
import time
from pathlib import Path
from typing import Any

import torch

from gmi_drl.algo.flat import tensor_digest
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.ppo import PPO
from gmi_drl.config import load_config
from gmi_drl.errors import GmiError
from gmi_drl.roles.agreement import News, Word, agree
from gmi_drl.roles.collector import Collector
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.phases import PhaseClock
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import make

LEARNER_PART = "learner"


class Holistic(DRL_role):
    """Trains a policy together with the other GMIs of its group: collect, agree, learn, report."""

    def GMI_run(self, resume: str | None = None) -> dict[str, Any]:
        """Train until the iterations, the time or the launcher's patience end. Returns where the run stands."""
        index = checkpoint.read_index(Path(resume)) if resume else {"iteration": 0, "env_steps": 0}
        iteration, self.env_steps = index["iteration"], index["env_steps"]
        self._set_up(iteration)
        if resume:
            self._restore(Path(resume), index)
        self._prove_disk(iteration, is_new=resume is None)
        word, started = Word.GO_ON, time.monotonic()
        while iteration < self.config.iterations and word is not Word.STOP:
            iteration += 1
            self.clock.start()
            waited_s = self.reduction.wait_s

            # Stage i: simulator and agent collect experience
            delta = self.collector.collect(self.clock)

            # What every GMI must know alike
            news = self._agree(delta, self._decide(time.monotonic() - started))
            self.collector.rollout.normalise_advantages(news.advantage_mean, news.advantage_std)

            # Stages ii and iii: learn, summing gradients over the group at every mini-batch
            self.ppo.update(self.collector.rollout, self._permutation())
            self.normaliser.merge(news.deltas)
            self.clock.mark("learn_s")

            self._report(iteration, news, self.reduction.wait_s - waited_s)
            word = news.word
            if word is Word.STOP or self._is_due(iteration):
                self._save(iteration)
        return {"iteration": iteration, "stopped": word is Word.STOP}

    def _set_up(self, start: int) -> None:
        """Make the parts of this GMI for iterations after `start`. Policies start alike, worlds and noise do not."""
        layout, gmi, device = self.mgr.layout, self.mgr.gmi, self.mgr.device
        assert layout.task is not None
        self.folder = RunFolder(self.mgr.run_folder)
        self.config = load_config(self.folder.config_file)
        self.reduction = self.mgr.reduction(self.group)
        self.task = make(
            layout.task, num_env=gmi.num_env, device=str(device), seed=self._seed(start, "task"), threads=len(gmi.cores)
        )
        torch.manual_seed(self.config.seed)
        self.policy = ActorCritic(self.task.spec, self.config.ppo.init_std).to(device)
        self.ppo = PPO(
            self.policy,
            self.config.ppo,
            share=gmi.num_env / layout.num_env,
            reduce=self.reduction.reduce,
            make_bucket=self.reduction.bucket,
        )
        self.normaliser = Normaliser(self.task.spec.num_obs, device)
        generator = torch.Generator(device).manual_seed(self._seed(start, "agent"))
        self.collector = Collector(self.task, self.policy, self.normaliser, self.config.ppo, generator)
        self.clock = PhaseClock(device)

    def _seed(self, iteration: int, purpose: str) -> int:
        """A seed that no other GMI, purpose or point of restart shares."""
        text = f"{self.config.seed}/{iteration}/{self.GMI_id}/{purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])

    def _decide(self, elapsed_s: float) -> Word:
        """What rank 0 says to all: the launcher's words, or that the time is over."""
        is_over = self.config.time_limit_s is not None and elapsed_s >= self.config.time_limit_s
        return Word.STOP if is_over or "stop" in self.mgr.channel.words() else Word.GO_ON

    def _agree(self, delta: torch.Tensor, word: Word) -> News:
        rollout = self.collector.rollout
        sums = torch.cat((rollout.reward.double().sum().reshape(1), self.collector.episodes))
        return agree(self.reduction, word, sums, rollout.advantage_moments(), delta)

    def _is_due(self, iteration: int) -> bool:
        return iteration % self.config.checkpoint_every == 0 or iteration == self.config.iterations

    def _permutation(self) -> torch.Tensor:
        transitions = self.config.ppo.horizon * self.task.num_env
        return torch.randperm(transitions, generator=self.collector.generator, device=self.task.device)

    def _report(self, iteration: int, news: News, sync_s: float) -> None:
        """One row to the launcher. Waits for the device, once."""
        phases = self.clock.read()
        phases["learn_s"] -= sync_s
        steps = self.config.ppo.horizon * self.mgr.layout.num_env
        self.env_steps += steps
        row = {"gmi": self.GMI_id, "iteration": iteration, "env_steps": self.env_steps, **phases, "sync_s": sync_s}
        if self.reduction.rank == 0:
            row |= {
                "reward_mean": news.reward_sum / steps,
                "episodes": news.episodes,
                "return_sum": news.return_sum,
                "length_sum": news.length_sum,
                "bad_worlds": news.bad_worlds,
                **self.ppo.metrics(),
            }
        self.mgr.report(row)

    def _save(self, iteration: int) -> None:
        """Save a checkpoint together: each GMI its own part, rank 0 the learner, which must be the same everywhere."""
        digest = self._write_parts(iteration)
        if self.reduction.rank == 0:
            self._commit(iteration, digest)
        self.reduction.barrier()

    def _prove_disk(self, iteration: int, is_new: bool) -> None:
        """Write a whole checkpoint before minutes are spent. A new run keeps it as its first."""
        digest = self._write_parts(iteration)
        if self.reduction.rank == 0:
            draft = checkpoint.draft(self.folder.checkpoints, iteration)
            checkpoint.require_room(draft, self.config.checkpoints_kept + 1)
            if is_new:
                self._commit(iteration, digest)
            checkpoint.drop_drafts(self.folder.checkpoints)
        self.reduction.barrier()

    def _write_parts(self, iteration: int) -> str:
        """All parts of a draft. Returns the digest of what all replicas must hold alike."""
        learner = {**self.ppo.state_dict(), "normaliser": self.normaliser.statistics}
        digest = tensor_digest(*learner.values())
        self._check_replicas(digest, iteration)
        draft = checkpoint.draft(self.folder.checkpoints, iteration)
        checkpoint.write_part(draft, f"gmi-{self.GMI_id}", self.collector.state_dict())
        if self.reduction.rank == 0:
            checkpoint.write_part(draft, LEARNER_PART, learner)
        self.reduction.barrier()
        return digest

    def _commit(self, iteration: int, digest: str) -> None:
        facts = {
            "env_steps": self.env_steps,
            "layout": self.mgr.layout.digest,
            "num_env": self.mgr.layout.num_env,
            "learner": digest,
            "ppo.learning_rate": self.config.ppo.learning_rate,
        }
        checkpoint.commit(self.folder.checkpoints, iteration, facts, self.config.checkpoints_kept)

    def _check_replicas(self, digest: str, iteration: int) -> None:
        """Replicas that have parted are a fault that training would hide."""
        digests = self.reduction.gather(torch.tensor([float(int(digest[:12], 16))], dtype=torch.float64))
        if (digests != digests[0]).any():
            raise GmiError(
                f"iteration {iteration}: the GMIs no longer hold the same learner (digests differ): please report this"
            )

    def _restore(self, saved: Path, index: dict[str, Any]) -> None:
        """Continue from a checkpoint: on the same layout bit-identically, on another one with fresh worlds.

        The learning rate goes on as it was adapted, unless the configuration has been given another one since.
        """
        learner = checkpoint.read_part(saved, LEARNER_PART)
        self.normaliser.load(learner.pop("normaliser"))
        self.ppo.load_state_dict(learner)
        if index["ppo.learning_rate"] != self.config.ppo.learning_rate:
            self.ppo.learning_rate.fill_(self.config.ppo.learning_rate)
        if index["layout"] == self.mgr.layout.digest:
            self.collector.load_state_dict(checkpoint.read_part(saved, f"gmi-{self.GMI_id}"))
