"""README fits on a screen, what it tells people to type works, and its figures are those of the results."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from pages import gmi_drl, transcripts

from gmi_drl.benchmarks.result import load_result

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
SMALL = {"GMI_DRL_PLAN_NUM_ENV": "8", "GMI_DRL_TRAIN_NUM_ENV": "8", "GMI_DRL_PLAY_STEPS": "8"}
MOST_BYTES, MOST_WORDS = 9216, 18
ROWS = re.findall(
    r"^\| .+? \| ([\d.]+x \([\d.]+-[\d.]+\)) \| .+? \| \[(\w+)\]\((.+?)\), ([\d-]+) \|$", README, re.MULTILINE
)


def prose(text):
    """Without code, tables, headings and links' targets."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(\||#|<|!).*", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", text)


def test_it_is_short():
    sentences = [words.split() for words in re.split(r"[.!?:](?:\s|\*)|\n\n|\n- ", prose(README)) if words.split()]
    assert len(README.encode()) <= MOST_BYTES
    assert sum(map(len, sentences)) / len(sentences) <= MOST_WORDS


def test_its_commands_run(tmp_path):
    commands = [arguments for arguments, _ in transcripts(README)]
    assert [command[0] for command in commands] == ["train", "status", "play", "plan"]
    printed = ""
    for arguments in commands:
        short = ["2" if before == "--iterations" else word for before, word in pairwise(["", *arguments])]
        short += ["--budget", "0"] if short[0] == "plan" else []
        run = gmi_drl(short, tmp_path, **SMALL)
        assert run.returncode == 0, run.stderr
        printed += run.stdout
    assert "done" in printed and "environment  return" in printed and "Next: gmi-drl train layout.yaml" in printed


@pytest.mark.parametrize("target", re.findall(r"make ([a-z]+)", README))
def test_its_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_it_has_six_results():
    assert len(ROWS) == README.split("## Results")[1].split("##")[0].count("](benchmarks/results/") - 2 == 6


@pytest.mark.parametrize(("ratio", "name", "file", "date"), ROWS)
def test_its_figures_are_those_of_the_results(ratio, name, file, date):
    result = load_result(ROOT / file)
    assert Path(file).stem == name and result.machine.date.startswith(date)
    assert ratio in map(str, result.ratios.values())


def test_it_says_whose_cores_were_measured_and_which_rows_were_disturbed():
    machines = [(name, load_result(ROOT / file).machine) for _, name, file, _ in ROWS]
    assert all("EPYC" in machine.cpu for _, machine in machines) and "All on two shared cores of an AMD EPYC" in README
    disturbed = {name: round(100 * machine.busy) for name, machine in machines if machine.warning}
    assert disturbed == {"ppo_ant_v5": 8}
    assert "While Ant-v5 was measured, other work took 8 % of the cores" in README
