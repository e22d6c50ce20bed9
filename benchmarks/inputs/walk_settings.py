"""Tries another value of every setting of every learner, and writes what a run does with it.

    python benchmarks/inputs/walk_settings.py > benchmarks/results/walk_settings.md

Takes a minute on one core. Each setting gets another value (`other_settings.py`) by `train --set` and by
`train --resume RUN --set`; the table has the last line that these print before anything starts. And learners with four
environments make an update with it, from new weights and from weights learnt without it; the table says whether the
resulting weights differ ("none": rsl_rl takes no such value for these networks; "-": the setting does not concern
weights, or needs a GPU, a compiler or another robot). Then the same for our PPO with its other template, TDG_EX, and
what each learner answers to each template.

What GMIs read (`settings_read.py`): all accepted settings are set together, and a run is resumed with them by each
launcher until its GMIs are killed, and restarted. The table has the number of GMIs that read the new value. Ray is not
needed: the launcher, the supervisors of two nodes (for rsl_rl one) and the messages between them are real. A cell is
empty if `--set` refuses the setting.
"""

import io
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from input_files import write_files
from input_runner import Said, run_here
from learners_here import made
from other_settings import OF_LEARNER, RUN
from settings_read import STARTS, arrived

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.config.learners import (
    A3CConfig,
    DQNConfig,
    LearnerConfig,
    PPOConfig,
    RslRlConfig,
    SACConfig,
    SequenceConfig,
)
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.config.learners.rsl_rl_keys import RUN_SETTINGS
from gmi_drl.config.run_config import RunConfig, apply_settings
from gmi_drl.config.settings import leaves
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import TEMPLATES

OURS = PPOConfig(horizon=4, epochs=2, minibatches=2, hidden=(8,), clip=0.05)
REPLAY = ReplaySettings(size=400, min_size=1, sampler="prioritized")
BASES: dict[str, LearnerConfig] = {
    "ppo": OURS,
    "a3c": A3CConfig(horizon=4, minibatches=2, hidden=(8,)),
    "rsl_rl": RslRlConfig(runner=runner_config(OURS)),
    "dqn": DQNConfig(horizon=4, batch=8, hidden=(8,), stream=8, learning_rate=0.1, epsilon_steps=30, replay=REPLAY),
    "sac": SACConfig(horizon=4, batch=8, hidden=(8,), replay=REPLAY),
    "sequence": SequenceConfig(horizon=4, batch=8, updates=3, width=8, heads=2),
}
NEED_MORE = frozenset(
    {
        "torch_compile_mode",
        "algorithm.symmetry_cfg",
        "algorithm.use_mixed_precision",
        "learner.sequence",
        "learner.replay.server",
    }
)
"""A compiler and a minute; a robot that is symmetric; a GPU; a memory; a replay server."""


def learnt(base: RunConfig, config: RunConfig, *, goes_on: bool, template: str | None = None) -> str:
    """The digest of the weights after an update by `config`, from new weights or from those after an update by `base`.

    Args:
        base: The configuration of the run.
        config: The one to go on with.
        goes_on: Whether an update by `base` comes first.
        template: Its name; None for the learner's default.
    """
    with redirect_stdout(io.StringIO()), ExitStack() as life:  # rsl_rl prints its networks

        def new(by: RunConfig) -> Any:
            learner = made(by, template)
            if hasattr(learner, "close"):
                life.callback(learner.close)
            return learner

        learner = new(config)
        if goes_on:
            first = new(base)
            first.iterate(lambda: Decision.GO_ON)
            learner.load_learner_state(first.learner_state())
            if base.learner.learning_rate != config.learner.learning_rate:  # see `Checkpointer.restore`
                learner.set_learning_rate(config.learner.learning_rate)
        learner.iterate(lambda: Decision.GO_ON)
        return tensor_digest(*learner.learner_state().values())


def base_of(kind: str) -> RunConfig:
    """The configuration in which each setting is changed."""
    return RunConfig(iterations=2, learner=BASES[kind])


def weights(kind: str, place: str, text: str, *, goes_on: bool, template: str | None = None) -> str:
    """Whether another value changes the weights, as text."""
    base = base_of(kind)
    key = place.removeprefix("learner.runner.")
    if not place.startswith("learner.") or key in NEED_MORE or key in RUN_SETTINGS:
        return "-"
    try:
        config = apply_settings(base, [f"{place}={text}"])
        same, other = (learnt(base, one, goes_on=goes_on, template=template) for one in (base, config))
        return "others" if other != same else "the same"
    except Exception as error:  # rsl_rl's own error, if it takes no such value
        return f"none ({type(error).__name__})"


def told(said: Said) -> str:
    """The last line that a command prints, without this script's path."""
    last = [line for line in said.err.strip().splitlines() if line][-1].removeprefix("gmi-drl: ")
    if last.startswith("would start"):
        return "taken"
    return f"exit {said.code}: {last.strip().replace('|', '/')}"


def row(kind: str, place: str, text: str, originals: Path, folder: Path) -> list[str]:
    """The row of a setting: what a new and a resumed run do with it."""
    run = str(originals / "runs" / kind)
    new = ["--algo", kind, *(["--template", "decoupled", "--gmis-per-gpu", "2"] if kind == "a3c" else [])]
    started = run_here(["train", *new, "--num-env", "8", "--run-dir", "new", "--set", f"{place}={text}"], folder)
    more = [] if place.endswith("iterations") else ["--iterations", "9"]
    resumed = run_here(["train", "--resume", run, *more, "--set", f"{place}={text}"], folder)
    marks = {name: leaf.setting for name, leaf in leaves(base_of(kind))}
    mark = marks.get(place)
    return [
        told(started),
        weights(kind, place, text, goes_on=False) if told(started) == "taken" else "",
        mark.effect if mark else "translated into the run's own setting",
        told(resumed),
        weights(kind, place, text, goes_on=True) if told(resumed) == "taken" else "",
    ]


TITLES = ("new run", "weights", "its mark, for a run that goes on", "--resume", "weights")


def row_apart(place: str, text: str, originals: Path, folder: Path) -> list[str]:
    """The row of a setting for our PPO with TDG_EX."""
    layout = str(originals / "layout-TDG_EX-3.yaml")
    said = told(run_here(["train", layout, "--run-dir", "new", "--set", f"{place}={text}"], folder))
    if said != "taken":
        return [said, "", ""]
    mark = {name: leaf.setting for name, leaf in leaves(base_of("ppo"))}[place]
    goes_on = "" if mark and mark.fixed else weights("ppo", place, text, goes_on=True, template="TDG_EX")
    return [said, weights("ppo", place, text, goes_on=False, template="TDG_EX"), goes_on]


APART = ("TDG_EX, new run", "weights", "weights of one that goes on")


def by_template(kind: str, originals: Path, folder: Path) -> list[str]:
    """The row of a learner: its answer to a layout of each template."""
    layouts = [str(originals / f"layout-{template.name}-3.yaml") for template in TEMPLATES.own]
    return [told(run_here(["train", layout, "--algo", kind, "--run-dir", "new"], folder)) for layout in layouts]


def show(title: str, titles: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column has settings, or learners."""
    heads = list(titles)
    print(f"\n## {title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for one in rows:
        print(f"| {' | '.join(one)} |", flush=True)


def main() -> None:
    """Print the tables."""
    print("# What every setting does\n\n" + (__doc__ or "").partition("\n\n")[2])
    with TemporaryDirectory() as place:
        folder = Path(place)
        originals = folder / "templates"
        os.environ |= {"GMI_DRL_CLAIMS": str(folder / "claims"), "GMI_DRL_CACHE": str(folder / "cache")}
        write_files(originals)
        names = [template.name for template in TEMPLATES.own]
        rows = ([kind, *by_template(kind, originals, folder)] for kind in OF_LEARNER)
        show("Learners by template", ("learner", *names), rows)
        for kind, of_learner in OF_LEARNER.items():
            values = {**RUN, **of_learner}
            shown = {name: [f"`{name}`", f"`{text[:30].replace('|', '/')}`"] for name, text in values.items()}
            heads = ("setting", "other value")
            rows = ([*shown[name], *row(kind, name, text, originals, folder)] for name, text in values.items())
            show(kind, (*heads, *TITLES), rows)
            read = arrived(RunFolder(originals / "runs" / kind), values, folder / "scratch")
            rows = ([*shown[name], *read.get(name, [""] * len(STARTS))] for name in values)
            show(f"{kind}: what its GMIs read", (*heads, *STARTS), rows)
        values = {**RUN, **OF_LEARNER["ppo"]}
        rows = ([f"`{name}`", *row_apart(name, text, originals, folder)] for name, text in values.items())
        show("ppo by TDG_EX", ("setting", *APART), rows)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    sys.exit(main())
