"""Writes files as users have them, of every kind and template, and mutates them."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.workload import TaskSpec

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RUN_FILES = {
    "run's layout": "layout.yaml",
    "run's configuration": "config.yaml",
    "index": "checkpoints/000002/checkpoint.json",
    "metrics": "metrics.jsonl",
    "state": "state.json",
    "versions": "versions.json",
}
"""Files of a run folder by kind."""

FILES = {
    "layout": ("layout-*.yaml", "layouts/*.yaml"),
    "node": ("nodes/*.yaml",),
    "cluster": ("clusters/*.yaml",),
    "profile": ("profiles/*.json",),
    "agent file": ("agents/*.yaml",),
    **{kind: (f"runs/*/{name}",) for kind, name in RUN_FILES.items()},
}
"""The paths of valid files of each kind in the folder that `write_files` fills."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, 1e-320),
    *(
        float("inf"),
        float("nan"),
        "",
        " ",
        "x",
        "ant",
        "ppo",
        "cpu",
        "gpu",
        "TCG_EX",
        "1e5",
        "ctx",
        "é",
        "\u2028",
        "\0",
    ),
    *("a" * 300, "../..", "/dev/null", "{}", "[1", "!!python/object:os.system", [], {}, [None], [[]], [1, 1], {"": 1}),
    *({"a": {"b": {}}}, list(range(40)), {"version": 2}, "9" * 30, [-1], [{}], {"kind": "a3c"}, {"kind": 3}),
)


def write_files(folder: Path) -> None:
    """Fill a folder with valid files of all kinds."""
    for kind, pattern in (("nodes", "nodes/*.yaml"), ("clusters", "clusters/*.yaml"), ("layouts", "cluster/*.yaml")):
        _copy(EXAMPLES.glob(pattern), folder / kind)
    _copy([*EXAMPLES.glob("plans/*.json"), *EXAMPLES.glob("planning/*.json")], folder / "profiles")
    _copy(EXAMPLES.glob("plans/[dh]*.yaml"), folder / "nodes")
    (folder / "layouts" / "kuberay.yaml").unlink()
    _write_layouts(folder)
    _write_agents(folder / "agents")
    for kind in ("ppo", "a3c", "rsl_rl", "sac"):
        _write_run(folder / "runs" / kind, kind)


def mutated(chance: random.Random, kind: str, originals: Path, folder: Path) -> Path:
    """Write a mutant of a file of this kind into a folder; for a file of a run also the other files of the run."""
    original = chance.choice(sorted(path for pattern in FILES[kind] for path in originals.glob(pattern)))
    if kind in RUN_FILES:
        run = originals / "runs" / original.relative_to(originals / "runs").parts[0]
        shutil.copytree(run, folder / "run")
        file = folder / "run" / original.relative_to(run)
    else:
        file = folder / "mutant" / original.name
        file.parent.mkdir()
        shutil.copytree(originals / "nodes", folder / "nodes")  # cluster files name them
    text = original.read_text()
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        text = chance.choice((_edited, _edited, _edited, _scribbled))(chance, text, file.suffix)
    if kind == "index" and chance.random() < 0.7:
        text = _sealed(text)
    file.write_bytes(text.encode(errors="surrogateescape"))
    return file


def _copy(files: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, folder / file.name)


def _write_layouts(folder: Path) -> None:
    """Write a layout of each template."""
    from gmi_drl import scheduler
    from gmi_drl.errors import GmiError
    from gmi_drl.files import dump_yaml
    from gmi_drl.templates import TEMPLATES
    from gmi_drl.workload import TASK_SPECS

    for template in TEMPLATES.own:
        for gmis in (2, 3, 4):
            try:
                layout = scheduler.plan(
                    TASK_SPECS["ball_balance"],
                    _here(),
                    num_env=8,
                    gmis_per_gpu=gmis,
                    template=template,
                    backend="process",
                    share_cores=True,
                )
            except GmiError:  # too few devices for the template
                continue
            (folder / f"layout-{template.name}-{gmis}.yaml").write_text(dump_yaml(layout))


def _here() -> "Node":
    """A node with the cores that this process may use; nothing else is looked up."""
    from gmi_drl.hardware.node import Cpu, Node

    return Node(name="n", cpu=Cpu(cores=len(os.sched_getaffinity(0)), memory_gib=8.0))


def _write_agents(folder: Path) -> None:
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.config.learners.rsl_rl import runner_config

    folder.mkdir(parents=True)
    ours = runner_config(PPOConfig(hidden=(8,)))
    kept = {"seed": 42, "max_iterations": 3, "save_interval": 50, "device": "cuda:0", "resume": False, "load_run": ".*"}
    (folder / "today.yaml").write_text(yaml.safe_dump(ours | kept))
    policy = {"class_name": "ActorCritic", "init_noise_std": 1.0, "actor_hidden_dims": [8], "critic_hidden_dims": [8]}
    former = {name: value for name, value in ours.items() if name not in ("actor", "critic", "obs_groups")}
    (folder / "former.yaml").write_text(yaml.safe_dump(former | kept | {"policy": policy, "clip_actions": None}))


def _smaller(kind: str, task: "TaskSpec") -> list[str]:
    """Settings of a small learner; the sequence policy has episodes to learn from."""
    if kind == "sequence":
        from learners_here import recorded

        return ["learner.width=8", f"learner.data={recorded(task)}"]
    return [] if kind == "rsl_rl" else ["learner.hidden=[8]"]


def _write_run(path: Path, kind: str) -> None:
    """Write a run of two iterations with an untrained policy."""
    import torch

    from gmi_drl import scheduler
    from gmi_drl.config.run_config import apply_settings, default_config
    from gmi_drl.roles.serving.player import new_agent
    from gmi_drl.run import checkpoint
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.templates import TEMPLATES
    from gmi_drl.workload import TASK_SPECS

    task, folder = TASK_SPECS["ball_balance"], RunFolder(path)
    config = default_config(task, kind)
    config = apply_settings(config, ["iterations=2", *_smaller(kind, task)])
    template = TEMPLATES.find("decoupled" if kind == "a3c" else "TCG_EX")
    layout = scheduler.plan(
        task,
        _here(),
        num_env=8,
        gmis_per_gpu=2 if kind == "a3c" else 1,
        template=template,
        backend="process",
        share_cores=True,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    folder.create()
    folder.write_setup(layout, config)
    learner = {
        "normaliser": torch.zeros(1 + 2 * task.observation.size, dtype=torch.float64),
        "parameters": torch.zeros(4),
    }
    if kind != "rsl_rl":
        agent, vector = new_agent(task, config, torch.device("cpu"))
        learner = {"normaliser": agent.normaliser.statistics, "parameters": vector}
    checkpoint.write_part(checkpoint.draft(folder.checkpoints, 2), "learner", learner)
    facts = {"layout": layout.digest, "num_env": layout.num_env, "env_steps": 64, "iteration": 2, "learning_rate": 1e-3}
    checkpoint.commit(folder.checkpoints, 2, checkpoint.NO_TRAINING | facts, kept=2)
    rows = ({"iteration": i, "env_steps": 32 * i, "steps_per_second": 9.5, "return_mean": None} for i in (1, 2))
    folder.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder.write_state("done")


def _edited(chance: random.Random, text: str, suffix: str) -> str:
    """The text with another value in one place; with random characters if it cannot be parsed."""
    if suffix == ".jsonl":
        lines = text.splitlines() or ["{}"]
        place = chance.randrange(len(lines))
        lines[place] = _edited(chance, lines[place], ".json")
        return "\n".join(lines) + "\n"
    try:
        data = yaml.safe_load(text) if suffix == ".yaml" else json.loads(text)
        places = list(_places(data))
    except (yaml.YAMLError, ValueError, RecursionError):
        places = []
    if not places:
        return _scribbled(chance, text, suffix)
    holder, key = chance.choice(places)
    chance.choice((_set, _set, _set, _drop, _rename, _add, _swap))(chance, holder, key, places)
    if suffix != ".yaml":
        return json.dumps(data)
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=chance.random() < 0.5))


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container and key in a document."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(items):
        yield data, key
        yield from _places(value)


Edit = Callable[[random.Random, Any, Any, list[tuple[Any, Any]]], None]


def _set(chance: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    holder[key] = json.loads(json.dumps(chance.choice(VALUES)))


def _drop(chance: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    del holder[key]


def _rename(chance: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    other = chance.choice(("", "Gpus", "ctx", str(key)[:-1], f"{key}s", 0, None, 1.5, True, "version", "kind"))
    if isinstance(holder, dict):
        holder[other] = holder.pop(key)
    else:
        holder.insert(0, {other: holder[key]})


def _add(chance: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    value = json.loads(json.dumps(chance.choice((holder[key], chance.choice(VALUES)))))
    if isinstance(holder, dict):
        holder[chance.choice(("", "new", "Gpus", "former", "ppo", 3))] = value
    else:
        holder.append(value)


def _swap(chance: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    other, there = chance.choice(places)
    holder[key] = json.loads(json.dumps(other[there], default=str))


def _scribbled(chance: random.Random, text: str, suffix: str) -> str:
    """The text with some characters replaced, or lines moved."""
    at = chance.randrange(len(text) + 1)
    lines = text.splitlines(keepends=True) or [""]
    line = chance.randrange(len(lines))
    return chance.choice(
        (
            text[:at]
            + chance.choice(("\0", "\udcff", "{", "}", ":", "- ", "&a ", "*a ", "\t", "'", "!!set ", "? ", "<<: "))
            + text[at:],
            text[:at],
            text[:at] + text[at + chance.randrange(1, 9) :],
            "".join(lines[:line] + lines[line + 1 :]),
            "".join(lines[:line] + lines[line : line + 1] * 2 + lines[line + 1 :]),
            "".join(chance.sample(lines, len(lines))),
            "",
            "[" * 3000,
        )
    )


def _sealed(text: str) -> str:
    """The index with a correct digest, so that its values are checked, too."""
    try:
        index = json.loads(text)
        index.pop("digest", None)
        digest = hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
        return json.dumps(index | {"digest": digest})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return text
