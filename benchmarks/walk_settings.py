"""Walk over every setting of every learner: what a new run and one that goes on do with another value of it.

    python benchmarks/walk_settings.py > benchmarks/results/walk_settings.md

Takes a minute on one core. Each setting gets another value (`other_settings.py`) by `train --set` and by
`train --resume RUN --set`, of which the last word before anything starts is told; and learners of four worlds make an
update with it, of nothing and of what they have learnt without it: whether their weights become others ("none": rsl_rl
takes no such value for these networks; "-": it is no matter of weights, or needs a GPU, a compiler or another robot).
"""

import io
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from input_files import write_files
from input_runner import Said, run_here
from other_settings import OF_LEARNER, RUN
from torch import Tensor

from gmi_drl.algo.experience import ExperienceBatch
from gmi_drl.algo.flat import tensor_digest
from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.reductions.alone import Solo
from gmi_drl.config import RunConfig, a3c_of, apply_settings
from gmi_drl.experience import RolloutForm
from gmi_drl.learners import A3CConfig, LearnerConfig, PPOConfig, RslRlConfig
from gmi_drl.learners.rsl_rl import runner_config
from gmi_drl.learners.rsl_rl_keys import RUN_SETTINGS
from gmi_drl.roles.actor import Actor
from gmi_drl.roles.agreement import Word
from gmi_drl.roles.asynchronous.replica import make_a3c
from gmi_drl.roles.clock import PhaseClock
from gmi_drl.roles.player import new_agent
from gmi_drl.roles.replica import Replica
from gmi_drl.settings import leaves
from gmi_drl.tasks import make

N, CPU = 4, torch.device("cpu")
OURS = PPOConfig(horizon=4, epochs=2, minibatches=2, hidden=(8,), clip=0.05)
BASES: dict[str, LearnerConfig] = {
    "ppo": OURS,
    "a3c": A3CConfig(horizon=4, minibatches=2, hidden=(8,)),
    "rsl_rl": RslRlConfig(runner=runner_config(OURS)),
}
NEED_MORE = frozenset({"torch_compile_mode", "algorithm.symmetry_cfg", "algorithm.use_mixed_precision"})
"""A compiler and a minute; a robot that is symmetric; a GPU."""


class Apart:
    """An agent and a trainer of A3C, who take turns."""

    def __init__(self, config: RunConfig) -> None:
        self.task, self.learner = make("ant", num_env=N, seed=1), a3c_of(config)
        self.a3c = make_a3c(self.task.spec, config, Solo(), CPU)
        agent, self.vector = new_agent(self.task.spec, config, CPU)
        self.actor = Actor(self.task, agent, self.learner, torch.Generator().manual_seed(2))

    def iterate(self, decide: Any) -> None:
        """The agent plays rollouts by a policy that is somewhat older, the trainer learns from them."""
        spec, horizon = self.task.spec, self.learner.horizon
        form = RolloutForm(horizon, N, spec.num_obs, spec.num_actions)
        batch = ExperienceBatch.empty(form, self.learner.rollouts or 1, CPU)
        rollout = Rollout(horizon, N, spec.num_obs, spec.num_actions, CPU)
        for number in range(len(batch.obs)):
            self.actor.play(rollout, PhaseClock(CPU))
            with torch.no_grad():
                if self.learner.bootstrap == "last_value":
                    rollout.bootstrap.mul_(self.actor.agent.value(rollout.obs))
                rollout.log_prob.copy_(self.actor.agent.policy.log_prob(rollout.action, rollout.mean))
            for name in (
                "obs",
                "action",
                "log_prob",
                "reward",
                "done",
                "valid",
                "bootstrap",
                "last_obs",
                "delta",
                "sums",
            ):
                getattr(batch, name)[number].copy_(getattr(rollout, name))
        self.vector.add_(0.02)  # of another version than who learns
        self.a3c.update(batch)
        self.a3c.normaliser.merge(batch.delta)

    def learner_state(self) -> dict[str, Tensor]:
        """As of the replicas of other learners."""
        return self.a3c.state_dict()

    def load_learner_state(self, state: dict[str, Tensor]) -> None:
        """As of the replicas of other learners."""
        self.a3c.load_state_dict(state)
        self.vector.copy_(state["parameters"]).add_(0.02)

    def set_learning_rate(self, rate: float) -> None:
        """As of the replicas of other learners."""
        self.a3c.learning_rate.fill_(rate)


def made(config: RunConfig) -> Any:
    """A learner with worlds, by the role's own parts."""
    if config.learner.kind == "a3c":
        return Apart(config)
    task = make("ant", num_env=N, seed=1)
    if config.learner.kind == "rsl_rl":
        from gmi_drl.roles.rsl_rl.replica import RslRlReplica

        torch.manual_seed(1)
        return RslRlReplica(task, config, Solo(), sample_share=1.0, seed=1, log_dir=None)
    replica = Replica(task.spec, config, Solo(), sample_share=1.0, device=CPU, seed=config.seed)
    replica.enter_worlds(task, seed=2)
    return replica


def learnt(base: RunConfig, config: RunConfig, *, goes_on: bool) -> str:
    """The digest of what is learnt by `config` in an update, of nothing or of what an update by `base` has taught."""
    with redirect_stdout(io.StringIO()):  # rsl_rl shows its networks
        return _learnt(base, config, goes_on=goes_on)


def _learnt(base: RunConfig, config: RunConfig, *, goes_on: bool) -> str:
    learner = made(config)
    if goes_on:
        first = made(base)
        first.iterate(lambda: Word.GO_ON)
        learner.load_learner_state(first.learner_state())
        if base.learner.learning_rate != config.learner.learning_rate:  # see `Checkpointer.restore`
            learner.set_learning_rate(config.learner.learning_rate)
    task = learner.env.task if hasattr(learner, "env") else learner.actor.task
    task.episode_length.fill_(task.spec.episode_steps - 2)  # so that time-outs come
    learner.iterate(lambda: Word.GO_ON)
    return tensor_digest(*learner.learner_state().values())


def base_of(kind: str) -> RunConfig:
    """What every setting is changed of."""
    return RunConfig(iterations=2, learner=BASES[kind])


def weights(kind: str, place: str, text: str, *, goes_on: bool) -> str:
    """Whether the weights become others by another value."""
    base = base_of(kind)
    key = place.removeprefix("learner.runner.")
    if not place.startswith("learner.") or key in NEED_MORE or key in RUN_SETTINGS:
        return "-"
    try:
        config = apply_settings(base, [f"{place}={text}"])
        return "others" if learnt(base, config, goes_on=goes_on) != learnt(base, base, goes_on=goes_on) else "the same"
    except Exception as error:  # rsl_rl's own, where it takes no such value
        return f"none ({type(error).__name__})"


def told(said: Said) -> str:
    """What a command line said last, without the place where this script is."""
    last = [line for line in said.err.strip().splitlines() if line][-1].removeprefix("gmi-drl: ")
    if last.startswith("would start"):
        return "taken"
    return f"exit {said.code}: {last.strip().replace('|', '/')}"


def row(kind: str, place: str, text: str, originals: Path, folder: Path) -> list[str]:
    """One line of the table."""
    run = str(originals / "runs" / kind)
    new = ["--algo", kind, *(["--template", "decoupled", "--gmis-per-gpu", "2"] if kind == "a3c" else [])]
    started = run_here(["train", *new, "--num-env", "8", "--run-dir", "new", "--set", f"{place}={text}"], folder)
    more = [] if place.endswith("iterations") else ["--iterations", "9"]
    resumed = run_here(["train", "--resume", run, *more, "--set", f"{place}={text}"], folder)
    marks = {name: leaf.setting for name, leaf in leaves(base_of(kind))}
    mark = marks.get(place)
    return [
        f"`{place}`",
        f"`{text[:30].replace('|', '/')}`",
        told(started),
        weights(kind, place, text, goes_on=False) if told(started) == "taken" else "",
        mark.effect if mark else "translated into the run's own setting",
        told(resumed),
        weights(kind, place, text, goes_on=True) if told(resumed) == "taken" else "",
    ]


TITLES = ("setting", "other value", "new run", "weights", "its mark, for a run that goes on", "--resume", "weights")


def main() -> None:
    """Print the tables."""
    print("# What every setting does\n\n" + (__doc__ or "").partition("\n\n")[2])
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_files(folder / "templates")
        for kind, values in OF_LEARNER.items():
            print(f"\n## {kind}\n\n| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}")
            for name, text in {**RUN, **values}.items():
                print(f"| {' | '.join(row(kind, name, text, folder / 'templates', folder))} |", flush=True)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    sys.exit(main())
