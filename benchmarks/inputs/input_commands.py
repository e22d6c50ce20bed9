"""Makes command lines: one that reads a mutated file, or a random one with random values."""

import random
from pathlib import Path
from typing import Any

from gmi_drl.cli.commands import ENTRIES, load

ENDS_SOON = {"sweep": ["--command", "true", "--at-once", "1", "--seeds", "0"], "top": ["--once"]}
"""Options by which commands end that would go on for long."""

NEVER = frozenset({"--remove-stale", "--stale", "--help"})
"""Options that change this machine, or take long."""

WORDS = (
    *("", " ", "0", "1", "2", "-1", "3", "4096", "1e9", "99999999999999999999", "nan", "inf", "-0.5", "0.5", "x", "é"),
    *("ant", "humanoid", "ball_balance", "shadow_hand", "mujoco:Ant-v5", "gymnasium:X-v0", "isaacgym:Ant", "nothing:1"),
    *("TCG_EX", "TCG", "TDG", "TDG_EX", "decoupled", "training", "serving", "ppo", "a3c", "rsl_rl", "auto", "process"),
    *("mps", "mig", "mig-ci", "green", "local", "ray", "table", "json", "env", "slurm", "kubernetes", "mig-parted"),
    *("seed=1", "iterations=3", "learner.gamma=2", "learner.hidden=[]", "learner={}", "=", "a=b", "learner.kind=a3c"),
    *("writers=[wandb]", "learner.runner.seed=1", "warp.njmax=9", "physics=warp", "H100=2", "=2", "H100=-1", "1,2,3"),
    *(
        "640x480",
        "0x0",
        "a.mp4",
        "a.gif",
        "new.json",
        "new.yaml",
        "missing/new.yaml",
        "/dev/null",
        ".",
        "run",
        "missing",
    ),
)


def command_of(chance: random.Random, kind: str, file: Path, folder: Path) -> list[str]:
    """A command that reads a file of this kind."""
    originals = next(path for path in (folder.parent / "templates",) if path.exists())
    run, node = str(originals / "runs" / "ppo"), str(originals / "nodes" / "h100-x2.yaml")
    profile = str(originals / "profiles" / "h100-pair.json")
    template = chance.choice(("training", "serving", "TCG_EX", "TCG", "TDG", "TDG_EX", "decoupled"))
    serve = ["serve", run, str(file), "--steps", "1"]
    here = str(folder / "run")
    resume = ["train", "--resume", here, "--iterations", "9"]
    of_run = (resume, [*resume, "--num-env", "8"], ["status", here], ["play", here, "--steps", "2"], ["status"])
    commands: dict[str, tuple[list[str], ...]] = {
        "layout": (
            ["train", str(file), "--run-dir", "new"],
            serve,
            ["train", "--resume", run, "--iterations", "9", str(file)],
        ),
        "node": (
            ["plan", "--node", str(file), "--template", template],
            ["plan", "--node", str(file), "--profile", profile],
            [
                "plan",
                "--node",
                str(file),
                "--format",
                chance.choice(("json", "mig-parted", "kubernetes", "slurm", "env")),
            ],
            ["plan", "--profile", profile, "--what-if", str(file)],
        ),
        "cluster": (
            ["plan", "--cluster", str(file), "--template", template],
            ["plan", "--cluster", str(file), "--profile", profile],
        ),
        "profile": (
            ["plan", "--node", node, "--profile", str(file)],
            ["plan", "--node", node, "--profile", str(file), "--explain", "--price-per-gpu-hour", "2"],
            ["plan", "--profile", str(file), "--what-if", node, "--format", "json"],
        ),
        "agent file": (
            ["train", "--algo", "rsl_rl", "--rsl-rl-config", str(file), "--num-env", "4", "--run-dir", "new"],
        ),
    }
    return chance.choice(commands.get(kind, of_run))


def random_command(chance: random.Random, originals: Path, folder: Path) -> list[str]:
    """A random command with some of its arguments and options and random values."""
    command = load(chance.choice(list(ENTRIES)))
    arguments = (one for one in command.params if one.param_type_name == "argument")
    words = [str(command.name), *(_value(chance, one, originals) for one in arguments if chance.random() < 0.8)]
    options = [one for one in command.params if one.param_type_name == "option" and not NEVER.intersection(one.opts)]
    for option in chance.sample(options, chance.randrange(min(5, len(options) + 1))):
        words.append(chance.choice(option.opts))
        if not getattr(option, "is_flag", False) or chance.random() < 0.03:
            words.append(_value(chance, option, originals))
    if command.name in ("play", "serve") and "--steps" not in words:
        words += ["--steps", "2"]
    return words + ENDS_SOON.get(str(command.name), [])


def _value(chance: random.Random, parameter: Any, originals: Path) -> str:
    """A value for a parameter: mostly a valid one."""
    choices = getattr(parameter.type, "choices", None)
    if choices and chance.random() < 0.8:
        return str(chance.choice(list(choices)))
    if "path" in str(parameter.type).lower() and chance.random() < 0.7:
        files = sorted(path for path in originals.glob("*/*") if path.suffix or path.parent.name == "runs")
        return str(chance.choice(files))
    if "int" in str(parameter.type).lower() and chance.random() < 0.6:
        return str(chance.choice((1, 2, 3, 8, 256, 2**20)))
    return chance.choice(WORDS)
