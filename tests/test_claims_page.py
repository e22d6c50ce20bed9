"""Each ratio of README and of the pages is in the list of claims, with a result that says it and a command."""

import ast
import json
import os
import random
import re
import shlex
import time
from functools import cache
from pathlib import Path
from statistics import median

import pytest
import time_to_return

from gmi_drl.benchmarks.cases import CASES, MODULES
from gmi_drl.benchmarks.report import load_results
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.layout.cut import Cut
from gmi_drl.workload import TASK_SPECS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
LIST = DOCS / "claims.md"
RATIO = re.compile(r"\d+\.\d+x(?: \([\d.]+(?:-| to )[\d.]+\))?")
ROWS = re.findall(
    r"^\| \[.+?\]\((.+?)\) \| (\d.*?) \| (.*?)\| \[.+?\]\(\.\./benchmarks/results/(.+?)\) \| `(.+?)` \|$",
    LIST.read_text(),
    re.MULTILINE,
)
OTHERS = re.findall(r"^\| \[.+?\]\(\.\./benchmarks/results/(.+?)\) \| `(.+?)` \|$", LIST.read_text(), re.MULTILINE)
LEARNT = re.findall(
    r"^\| (.+?) \| (.+?) \| .+? \| \d+ \| (\S+) \| (\S+) \| (.*?)\| (.*?)\| \[.+?\]"
    r"\(\.\./benchmarks/results/(.+?)\) \| `(.+?)` \|$",
    LIST.read_text(),
    re.MULTILINE,
)
"""Of the table of returns: what learns, task, returns of both, ratio, p, result, command."""

COMMANDS = sorted(
    {command for *_, command in ROWS} | {command for _, command in OTHERS} | {command for *_, command in LEARNT}
)

GENERATED = {
    *("claims.md", "same_speed.md", "same_numbers.md", "mutants.md", "mutants_replay.md", "gpu_day.md"),
    *("internals/ten_machines.md", "start/half_hour.md"),
}
"""Pages of transcripts, and those that a script writes."""

OF_THE_PAPER = {"1.86x", "2.81x"}
"""Figures of GMI-DRL's own machine."""

PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if str(page.relative_to(DOCS)) not in GENERATED),
]


RUN_BY = {
    "a3c_update": "components/test_a3c_update_case.py::test_both_sides_are_timed",
    "decoupled_against_queue": (
        "test_asynchronous_cases.py::test_channels_and_a_queue_train_with_the_same_environments_and_learner"
    ),
    "gmis_512": "sharing/test_gmis_against_solo_case.py::test_all_sides_have_as_many_environments",
    "gmis_at_solos_best": "sharing/test_gmis_against_solo_case.py::test_all_sides_have_as_many_environments",
    "learning_against_rsl_rl": (
        "peers/test_learning_against_rsl_rl_case.py::test_both_sides_take_the_same_seed_and_steps"
    ),
    "ray_overhead": "peers/test_ray_overhead_case.py::test_both_sides_train_and_only_one_has_processes_of_ray",
    **dict.fromkeys(
        ("table_8_most_anymal", "table_8_most_franka_cabinet"),
        "paper/test_table_8_dummies_case.py::test_both_modes_send_the_same_in_messages_of_their_own",
    ),
    **dict.fromkeys(
        ("tcg_against_tdg", "tcg_ex_against_tdg_ex"),
        "paper/test_tables_4_5_case.py::test_every_side_runs_and_only_where_roles_are_apart_borders_cost",
    ),
}
"""The claims that the suite measures with tiny sizes, and by which test of `tests/benchmarks/cases`."""


DRAWN, MOST_S = 10, 60.0
"""How many claims are drawn at random, and after how many seconds no other one is begun."""

LONG = {
    *("algorithm_2_humanoid_training", "learning_a3c", "learning_against_rsl_rl", "learning_memories"),
    *("gmis_at_solos_best", "pong_gmis", "pong_speed", "ppo_ant_v5_bf16"),
    *("rllib_cluster", "rllib_cluster_2", "srl_table_1"),
}
"""Cases whose tiny sizes are whole trainings or plans, or tens of seconds."""


def times_to_goal():
    """What the plans of each objective take, in times of the fastest cut that was trained."""
    found = set()
    for task in time_to_return.GOALS:
        seconds = {cut: time_to_return.middle(each) for cut, each in time_to_return.seconds_to_goal(task).items()}
        chosen = [Cut(one["gmis"], one["num_env"]) for one in time_to_return.kept(task)["choices"].values()]
        least = min(one for one in seconds.values() if one is not None)
        found |= {round(seconds[cut] / least, 2) for cut in chosen if seconds[cut] is not None}
    return found


def sums_of_two_machines():
    """The most that a sum took over 1 Gbit/s, in times of the network's own time."""
    networks = json.loads((RESULTS / "network_cost" / "measured.json").read_text())["networks"]
    sums = [one["sums"] for one in networks if one.get("nodes", 2) == 2 and one["gbit_per_s"] == 1.0]
    return {round(max(one["measured_ms"] / one["model_of_bare_ms"] for each in sums for one in each.values()), 2)}


FOLDERS = {"time_to_return": times_to_goal, "network_cost": sums_of_two_machines}
"""The figures that folders of results say."""


@cache
def results():
    """The committed results of cases, by the names of their files."""
    return load_results(RESULTS)


def prose(page):
    """A page without its blocks of code, which are transcripts."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_ratio_of_a_page_is_a_claim_of_the_list(page):
    listed = {ratio for place, ratio, *_ in ROWS if (DOCS / place).resolve() == page}
    assert set(RATIO.findall(prose(page))) - OF_THE_PAPER == listed


@pytest.mark.parametrize(("place", "ratio", "side", "result", "command"), ROWS)
def test_a_claim_is_what_its_result_says_of_the_side_that_it_names(place, ratio, side, result, command):
    file, number = RESULTS / result, ratio.partition("x")[0]
    if file.suffix == ".json":
        found = results()[file.stem]
        said = found.ratios[side.strip()]
        assert ratio.replace(" to ", "-") in (str(said).replace("range ", ""), f"{said.median:.2f}x")
        assert command == f"gmi-drl bench {found.case.name}"
    elif file.suffix == ".txt":
        assert re.search(rf"\b{re.escape(number)}x?\b", file.read_text())
    else:
        assert float(number) in FOLDERS[result]()


HIGHEST = 500.0
"""What an episode of CartPole returns at most: the reference of policies with memories."""


@pytest.mark.parametrize(("what", "task", "ours", "theirs", "ratio", "p", "result", "command"), LEARNT)
def test_returns_beside_a_reference_are_what_their_result_says(what, task, ours, theirs, ratio, p, result, command):
    if result.endswith(".json"):
        assert (float(ours), float(theirs), ratio.strip()) == of_a_case(result.removesuffix(".json"), what)
        return
    said = (RESULTS / result).read_text()
    for figure in (ours, theirs, *re.findall(r"[\d.]+", f"{ratio} {p}")):
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", said), f"{task}: {figure}"


def of_a_case(name, what):
    """The medians of our side and of the reference, and the ratio with its range over the seeds.

    Our side is the one that ends `what` ("PPO with a GRU"), beside the highest return; else the first, beside the last.
    """
    columns = {side: [one.value for one in column] for side, column in results()[name].samples.items()}
    ours = columns.get(what.split()[-1])
    theirs = [HIGHEST] * len(ours) if ours else list(columns.values())[-1]
    ours = ours or next(iter(columns.values()))
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    text = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    return round(median(ours), 2), round(median(theirs), 2), text


def test_what_learns_is_labelled_and_positive_returns_of_several_seeds_have_an_interval():
    assert {what for what, *_ in LEARNT} >= {"DQN, late", "DQN, last", "A3C, reward of a step, 150 s"}
    seeds = re.findall(
        r"^\| .+? \| .+? \| .+? \| (\d+) \| (\S+) \| \S+ \| (.*?)\| .*?\| \[", LIST.read_text(), re.MULTILINE
    )
    assert [row for row in seeds if int(row[0]) > 1 and float(row[1]) > 0 and not row[2].strip()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_a_claim_exists(command):
    folder, words = ROOT, shlex.split(command)
    if words[0] == "cd":
        folder, words = ROOT / words[1], words[3:]
    if words[:2] == ["gmi-drl", "bench"]:
        assert words[2] in CASES
        return
    assert words[0] == "python"
    if words[1] == "-m":
        words[1:3] = [f"{words[2].replace('.', '/')}.py"]
    script = (folder / words[1]).read_text()
    if "from trainings import" in script:  # which has their commands
        script += (folder / words[1]).with_name("trainings.py").read_text()
    options = [word for word in words[2:] if word.startswith("--") or (word.isidentifier() and word not in TASK_SPECS)]
    assert all(f'"{option}"' in script for option in options)


def test_the_table_of_returns_is_read_whole():
    table = LIST.read_text().partition("## Learns as well as")[2].partition("\n## ")[0]
    assert len(LEARNT) == table.count("\n|") - 2  # its head


def tiny_claims():
    """The claimed cases that run here with tiny sizes, and the sides that their rows name, without peers.

    Those that have an environment of their own are left out by tiny sizes, also where they are installed.
    """
    sides, files = {}, list((ROOT / "benchmarks/peers/requirements").iterdir())
    packages = {re.split(r"[\[=]", line)[0] for file in files for line in file.read_text().splitlines()}
    peers = packages | {file.stem for file in files}
    for _, _, side, _, command in ROWS:
        if command.startswith("gmi-drl bench"):
            sides.setdefault(command.split()[-1], set()).add(side.strip())
    runs = [name for name in sorted(sides) if name not in LONG and not CASES[name].obstacle()]
    return {name: {side for side in sides[name] if side.split()[0] not in peers} for name in runs}


@pytest.mark.timeout(600)
def test_ten_claims_drawn_at_random_run_with_tiny_sizes():
    seed = int.from_bytes(os.urandom(4))
    print(f"The claims are drawn by random.Random({seed}).")
    claims, began_s = tiny_claims(), time.monotonic()
    assert len(claims) >= DRAWN
    for name in random.Random(seed).sample(list(claims), DRAWN):
        if time.monotonic() - began_s > MOST_S:
            break  # a busy machine: the others have their turn on another day
        found = run_case(CASES[name], repeats=1, quick=True)
        assert claims[name] <= found.ratios.keys() | set(found.same), f"{name}, drawn by {seed}"


def test_claims_are_run_by_tests_of_their_own():
    claimed = {command.split()[-1] for command in COMMANDS if command.startswith("gmi-drl bench")}
    assert set(RUN_BY) <= claimed and len(RUN_BY) >= 10


@pytest.mark.parametrize(("case", "test"), RUN_BY.items())
def test_the_test_of_a_claim_runs_its_case(case, test):
    path, _, name = test.partition("::")
    text = (ROOT / "tests" / "benchmarks" / "cases" / path).read_text()
    (function,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name)
    lines = text.splitlines()[function.decorator_list[0].lineno - 1 : function.end_lineno]
    source = "\n".join(lines)
    assert "run_case(" in source or ".open(True)" in source
    assert case in source or (re.search(r"\bCASES?\b", source) and MODULES[case].rpartition(".")[2] in text)


def test_every_result_that_a_page_links_has_a_command():
    known = {result.partition("/")[0] for result, _ in OTHERS} | {result.partition("/")[0] for *_, result, _ in ROWS}
    cases = {f"{name}.json" for name in results()}
    linked = {
        link.partition("/")[0]
        for page in PAGES
        for link in re.findall(r"\]\([./]*benchmarks/results/([^)#]+)\)", page.read_text())
    }
    pictures = {link for link in linked if link.endswith(".png")}
    assert linked - known - cases - pictures == set()
