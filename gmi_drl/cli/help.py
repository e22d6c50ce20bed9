"""What `--help` of each command shows besides its options' own texts: groups of options, and examples."""

import rich_click as click
from rich_click import rich_click as settings

PROGRAM = "gmi-drl"

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "plan": {
        "What is planned": (
            "--task",
            "--env-arg",
            "--set",
            "--template",
            "--algo",
            "--num-env",
            "--objective",
            "--keep-batch",
        ),
        "For which machine": ("--node", "--gpus", "--cluster", "--gmis-per-gpu", "--backend", "--share-cores"),
        "How it is found": ("--budget", "--fresh", "--profile", "--simulator-python"),
        "What is shown": ("--explain", "--what-if", "--price-per-gpu-hour", "--output", "--format"),
    },
    "profile": {
        "What is measured": (
            "--template",
            "--task",
            "--env-arg",
            "--set",
            "--algo",
            "--num-env",
            "--gmis-per-gpu",
            "--backend",
            "--noise",
        ),
        "How": ("--budget", "--fresh", "--simulator-python"),
        "What is written": ("--output", "--format"),
    },
    "train": {
        "What is trained": (
            "--task",
            "--env-arg",
            "--algo",
            "--iterations",
            "--seed",
            "--set",
            "--config",
            "--rsl-rl-config",
        ),
        "On which GMIs": ("--num-env", "--gmis-per-gpu", "--template", "--backend", "--apply-mig", "--launcher"),
        "The run": ("--run-dir", "--resume", "--restarts", "--logger", "--simulator-python", "--format"),
    },
    "sweep": {
        "What is trained": ("--task", "--env-arg", "--algo", "--seeds", "--set", "--search", "--trials"),
        "How": (
            "--iterations",
            "--num-env",
            "--gmis-per-gpu",
            "--config",
            "--rsl-rl-config",
            "--command",
            "--launcher",
            "--at-once",
            "--stop-early",
        ),
        "The sweep": ("--sweep-dir", "--resume", "--format"),
    },
    "play": {
        "What is played": ("--num-env", "--steps", "--seconds", "--seed", "--stochastic", "--untrained"),
        "The video": ("--output", "--camera", "--size"),
        "Other": ("--simulator-python", "--format"),
    },
}
"""The options of a command by what they are for, in the order of its help. Commands with few options have none."""

EXAMPLES: dict[str, dict[str, str]] = {
    "plan": {
        "plan --task ant -o layout.yaml": "Measure for a minute how many GMIs suit Ant here, and write the layout.",
        "plan --task ant --node 8xA100.yaml --profile ant.json": "Plan for another machine, from a profile made there.",
        "plan --task ant --budget 0": "Cut this machine evenly, without measuring.",
    },
    "profile": {
        "profile --task ant -o ant.json": "Measure this machine, for plans elsewhere.",
    },
    "train": {
        "train ant": "Train Ant on this machine, one GMI per core or GPU.",
        "train layout.yaml --set learner.learning_rate=3e-4": "Train on a planned layout, with another learning rate.",
        "train --resume latest": "Go on with the newest run from its last checkpoint.",
        "train ant --config runs/old/config.yaml --seed 3": "Train with the settings of another run.",
    },
    "sweep": {
        "sweep --task ant --seeds 0-15": "Train Ant with 16 seeds.",
        "sweep --task ant --set learner.learning_rate=3e-4,1e-3": "Try two learning rates, with three seeds each.",
        "sweep --search learner.learning_rate=1e-4..1e-2:log": "Let Optuna choose the learning rates.",
        "sweep --task ant --seeds 0-63 --launcher ray": "Train on all nodes of a Ray cluster.",
        "sweep --resume runs/sweep-ant": "Go on with a sweep that was stopped or killed.",
        "sweep --seeds 0-3 --command 'python train.py --seed {seed}'": "Pack runs of another program.",
    },
    "play": {
        "play runs/ant": "Show the returns of one episode in each of four environments.",
        "play runs/ant -o ant.mp4 --seconds 20": "Film the policy.",
    },
    "export": {
        "export runs/ant": "Write policy.onnx, for onnxruntime, TensorRT and others.",
        "export runs/ant --to torch -o ant.pt2": "Write a program that torch.export.load reads.",
    },
    "compare": {
        "compare runs/a runs/b": "Show what differs in their settings, and which has the better return.",
        "compare runs/ant-*": "Show all of them; runs that differ by their seeds alone are one configuration.",
    },
    "report": {
        "report runs/ant -o ant.html": "Write a page about a run.",
        "report runs/sweep-ant --film ant.mp4": "Write a page about a sweep, with a film.",
    },
    "serve": {
        "serve runs/ant --num-env 512 --steps 1000": "Act with the policy in 512 environments of each GMI.",
    },
    "replay": {
        "replay serve tables.yaml --shards 2 --checkpoints kept": "Serve tables of experience by two processes.",
        "replay info localhost:8123": "Show the tables of a server, and who waits for what.",
        "replay import seen --into hopper.replay": "Import the episodes that `serve --experience seen` wrote.",
    },
    "status": {
        "status": "Show all runs in runs/.",
        "status runs/ant --format json": "Show one run, for a program.",
    },
    "top": {
        "top": "Watch all runs in runs/ that train now.",
        "top --once --format json": "Print them once, for a program.",
    },
    "doctor": {
        "doctor": "Check what this machine has, and what is missing.",
    },
    "bench": {
        "bench list": "Show the cases, and which of them this machine can run.",
        "bench reduction_114k -o reduction.json": "Measure one, and write the result with its plot.",
    },
}
"""Commands to copy, each with what it does."""

INDENT = "\u200b    "
"""Spaces that rich-click does not strip, as they follow a character without width."""


def arrange(name: str, command: click.RichCommand) -> None:
    """Give a command its groups of options, and examples below its options."""
    if groups := GROUPS.get(name):
        settings.OPTION_GROUPS[f"{PROGRAM} {name}"] = [
            {"name": title, "options": list(options)} for title, options in groups.items()
        ]
    lines = (line for call, what in EXAMPLES[name].items() for line in (f"{PROGRAM} {call}", f"{INDENT}{what}"))
    command.epilog = "\n\n".join(("Examples:", *lines))
