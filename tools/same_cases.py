"""The cases of `tools.same_numbers`: command lines that both checkouts run, a few seconds each.

All are deterministic. Agents of asynchronous training act by the newest parameters (`max_lag: 0`), and each host has
one trainer: with several, a rollout goes to the first that is free.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gmi_drl.workload import MUJOCO_SPECS, TASK_SPECS
from tools.checkout import ROOT
from tools.transcripts import BLOCK, LINE

TASKS = (*TASK_SPECS, *MUJOCO_SPECS)
NUM_ENV = 8
FEW = ("--iterations", "2")
WHOLE, ACTS, LEARNS = ("simulator", "agent", "trainer"), ("simulator", "agent"), ("trainer",)
SIMULATES, ANSWERS = ("simulator",), ("agent",)


@dataclass(frozen=True)
class Case:
    """Commands that run one after the other in their own folder.

    Args:
        name: Its row on the page.
        commands: `gmi-drl` with its arguments, or a module of `tools` with its arguments.
        files: Texts that are put into the folder first, by file name.
        is_printed: Whether the output is compared, too. All its commands are `gmi-drl`, and run in one process.
    """

    name: str
    commands: Sequence[Sequence[str]]
    files: Mapping[str, str] = field(default_factory=dict)
    is_printed: bool = False


def cases() -> list[Case]:
    """All cases."""
    return [*_tasks(), *_learners(), *_roles(), *_nodes(), *_pages(), *_plans()]


def layout(
    task: str,
    *devices: Sequence[Sequence[str]],
    template: str = "TCG_EX",
    reduction: str = "none",
    nodes: Sequence[str] = (),
    max_lag: int | None = None,
) -> str:
    """The text of a layout file whose GMIs share core 0 of the process, which may use one core.

    Args:
        task: Its name.
        devices: The roles of each GMI of each device.
        template: Its name.
        reduction: Of the trainers.
        nodes: The node of each device; none for one host.
        max_lag: Of agents in asynchronous training.
    """
    gmis = [_gmi(number, roles) for number, roles in enumerate(roles for gmis in devices for roles in gmis)]
    trainers = [number for number, gmi in enumerate(gmis) if "trainer" in str(gmi["roles"])]
    left = iter(gmis)
    found = [
        {"kind": "cpu", "gmis": [next(left) for _ in roles]} | ({"node": nodes[index]} if nodes else {"index": index})
        for index, roles in enumerate(devices)
    ]
    told = {"version": 2, "task": task, "template": template, "share_cores": True, "devices": found}
    groups = {"groups": {"trainers": {"members": trainers, "reduction": reduction}}} if trainers else {}
    channels = {} if max_lag is None else {"channels": {"max_lag": max_lag}}
    return json.dumps(told | groups | channels)


def _gmi(number: int, roles: Sequence[str]) -> dict[str, object]:
    num_env = {"num_env": NUM_ENV} if "simulator" in roles else {}
    return {"id": number, "roles": roles, "cores": [0]} | num_env


def _trained(name: str, text: str, *more: str) -> Case:
    line = ("gmi-drl", "train", "layout.yaml", *FEW, *more, "--run-dir", "run")
    return Case(name, [line], {"layout.yaml": text})


def _tasks() -> list[Case]:
    """Trainings of every task on one GMI, and on several with every reduction for cores."""
    one, two, four = ([WHOLE],), ([WHOLE] * 2,), ([WHOLE] * 2, [WHOLE] * 2)
    ways = [("none", one), ("MPR-shm", two), ("MPR-gloo", two), ("HAR", four), ("SHARD", four), ("MRR", four)]
    found = []
    for number, task in enumerate(TASKS):
        reduction, devices = ways[number % len(ways)]
        text = layout(task, *devices, reduction=reduction)
        gmis = sum(map(len, devices))
        found.append(_trained(f"{task}, GMIs: {gmis}, reduction: {reduction}", text, "--seed", str(number)))
    return found


def _learners() -> list[Case]:
    two = layout("ant", [WHOLE] * 2, reduction="MPR-shm")
    first = _trained("ant, resumed, with the terms of its reward", two, "--set", "reward_terms=true")
    then = ("gmi-drl", "train", "--resume", "run", "--iterations", "4")
    usual = ("gmi-drl", "train", "--num-env", "256", "--gmis-per-gpu", "1", "--iterations", "20", "--run-dir", "run")
    return [
        _trained("ant, rsl_rl, GMIs: 2", two, "--algo", "rsl_rl"),
        _trained("mujoco:HalfCheetah-v5, rsl_rl", layout("mujoco:HalfCheetah-v5", [WHOLE]), "--algo", "rsl_rl"),
        Case(first.name, [*first.commands, then], first.files),
        Case("ant, 20 iterations of 256 environments", [usual]),
    ]


def _roles() -> list[Case]:
    """GMIs with one role each: A3C by `decoupled`, `TDG_EX`, and serving."""
    decoupled = layout("ant", [ACTS, LEARNS], template="decoupled", max_lag=0)
    apart = layout("anymal", [SIMULATES, SIMULATES, ANSWERS, LEARNS], template="TDG_EX")
    trained = ("gmi-drl", "train", "--num-env", "8", "--gmis-per-gpu", "1", *FEW, "--run-dir", "run")
    served = ("gmi-drl", "serve", "run", "serving.yaml", "--steps", "40", "--experience", "seen")
    serving = {"serving.yaml": layout("ant", [ACTS] * 2, template="TCG")}
    return [
        _trained("ant, A3C, agent and trainer", decoupled),
        _trained("anymal, TDG_EX", apart),
        Case("ant, served with its experience kept", [trained, served], serving),
    ]


def _nodes() -> list[Case]:
    line = ("tools.on_nodes", "layout.yaml", "run", FEW[-1])
    whole = layout("ant", [WHOLE] * 2, [WHOLE] * 2, nodes=["a", "b"], reduction="HAR")
    apart = layout("ant", [ACTS], [LEARNS], nodes=["a", "b"], template="decoupled", max_lag=0)
    pools = layout("ant", *[[ACTS, LEARNS]] * 2, nodes=["a", "b"], template="decoupled", reduction="HAR", max_lag=0)
    return [
        Case("ant, two nodes of two GMIs, HAR", [line], {"layout.yaml": whole}),
        Case("ant, A3C, agent and trainer on two nodes", [line], {"layout.yaml": apart}),
        Case("ant, A3C, agent and trainer on each of two nodes", [line], {"layout.yaml": pools}),
    ]


def _pages() -> list[Case]:
    """The commands of the pages."""
    found = []
    for name in ("guides/other_machines", "internals/ten_machines", "concepts/plans", "guides/other_tools"):
        text = (ROOT / "docs" / f"{name}.md").read_text()
        node = re.search(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if "tools" in name else None
        lines = [("gmi-drl", *line[2].split()) for block in BLOCK.finditer(text) for line in LINE.finditer(block[0])]
        found.append(Case(f"docs/{name}.md", lines, {"h100.yaml": node[1]} if node else {}, is_printed=True))
    return found


def _plans() -> list[Case]:
    """Plans that no page shows: with --explain, for clusters, and of this machine cut evenly."""
    explained = [
        ("--node", f"examples/plans/{name}.yaml", "--profile", f"examples/plans/{name}.json", "--explain")
        for name in ("dgx-a100", "h100-pair", "ten-thousand")
    ]
    clusters = [
        ("--cluster", f"examples/clusters/{name}.yaml", "--profile", "examples/plans/h100-pair.json")
        for name in ("two-h100", "slow-link")
    ]
    tasks = [("--task", task) for task in TASKS]
    templates = [
        ("--template", name, "--share-cores", "--gmis-per-gpu", "4") for name in ("decoupled", "TCG", "TDG_EX", "TDG")
    ]
    here = [("--budget", "0", *options) for options in (*tasks, *templates)]
    return [
        _planned("plans explained", explained),
        _planned("plans of clusters", clusters),
        _planned("plans of this machine, cut evenly", here),
    ]


def _planned(name: str, lines: Sequence[Sequence[str]]) -> Case:
    forms = [(), ("--format", "json")]
    return Case(name, [("gmi-drl", "plan", *line, *form) for line in lines for form in forms], is_printed=True)
