import json

import pytest
import torch
from safetensors.torch import save_file

from gmi_drl.files import load_yaml
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import template_of
from tools import on_nodes, same_cases, same_numbers
from tools.checkout import ROOT
from tools.fingerprint import NUMBERS, fingerprint

LAYOUT = same_cases.layout("ball_balance", [same_cases.WHOLE]).replace('"num_env": 8', '"num_env": 4')
LINE = ("gmi-drl", "train", "layout.yaml", "--iterations", "1", "--run-dir", "run")
SMALL = same_cases.Case("small", [LINE], {"layout.yaml": LAYOUT})
SIDES = (ROOT, ROOT)
CORE = min(allowed_cores())


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Of the many cases a small one and one that fails, and a page that is thrown away."""
    unknown = same_cases.Case("unknown", [("tools.nothing",)])
    monkeypatch.setattr(same_numbers, "cases", lambda: [SMALL, unknown])
    monkeypatch.setattr(same_numbers, "PAGE", tmp_path / "page.md")
    return tmp_path / "page.md"


def test_this_checkout_has_its_own_numbers_and_what_fails_is_told(page, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["same_numbers", str(ROOT)])
    assert same_numbers.main() == 1 and "No module named tools.nothing" in capsys.readouterr().err
    same, failed = page.read_text().splitlines()[-2:]
    _, name, old, new, verdict, _ = (cell.strip() for cell in same.split("|"))
    assert (name, verdict) == ("small", "same") and old == new and len(old) == 12
    assert failed == "| unknown | | | fails |"


def test_some_cases_are_run_alone_and_write_no_page(page, monkeypatch):
    monkeypatch.setattr(same_numbers, "left_by", lambda *arguments: {"a": "1"})
    monkeypatch.setattr("sys.argv", ["same_numbers", str(ROOT), "--only", "small"])
    assert same_numbers.main() == 0 and not page.exists()


def test_what_differs_is_named(monkeypatch, tmp_path):
    numbers = {"run/learner.safetensors parameters": "1", **{f"b {number}": "1" for number in range(6)}}
    sides = iter([numbers, {name: "2" for name in numbers} | {"new": "1"}])
    monkeypatch.setattr(same_numbers, "left_by", lambda *arguments: next(sides))
    row = same_numbers.compare(SMALL, SIDES, tmp_path, core=CORE)
    assert row.endswith(" | differs: b 0, b 1, b 2, b 3, b 4 and 2 more |")


def test_settings_and_metrics_that_came_or_went_are_told_by_name():
    old = {"run/config.yaml seed": "1", "run/metrics.jsonl 1 worlds": "1", "run/metrics.jsonl 2 worlds": "1"}
    new = {"run/config.yaml seed": "1", "run/config.yaml task.lives": "1"}
    assert same_numbers.verdict(old, new) == "same, beside what one has alone: task.lives, worlds"
    assert same_numbers.verdict(old, {**new, "run/config.yaml seed": "2"}) == "differs: run/config.yaml seed"
    assert same_numbers.verdict({"a": "1"}, {"b": "1"}).startswith("differs")


@pytest.mark.parametrize(
    ("later", "verdict"),
    [("2 GMIs of 0.5 GiB", same_numbers.WORDS), ("2 GMIs, 0.50 GiB", "differs: printed.txt, printed.txt its numbers")],
)
def test_texts_of_other_words_and_the_same_numbers_are_told_from_others(monkeypatch, tmp_path, later, verdict):
    texts = iter(["2 parts of 0.5 GiB", later])

    def left(*arguments):
        (tmp_path / "printed.txt").write_text(next(texts))
        return fingerprint(tmp_path)

    monkeypatch.setattr(same_numbers, "left_by", left)
    assert same_numbers.compare(SMALL, SIDES, tmp_path, core=CORE).endswith(f" | {verdict} |")


def test_what_commands_print_is_compared(tmp_path):
    plan = ("gmi-drl", "plan", "--budget", "0")
    printed = same_cases.Case("plans", [plan, (*plan, "--task", "ent")], is_printed=True)
    found = same_numbers.left_by(printed, ROOT, tmp_path / "folder", core=CORE)
    texts = ["layout.yaml", "printed-1.txt", "printed-2.txt"]
    assert sorted(found) == sorted([*texts, *(f"{text} {NUMBERS}" for text in texts)])
    texts = [(tmp_path / "folder" / f"printed-{number}.txt").read_text() for number in (1, 2)]
    assert "GMI 0: " in texts[0] and texts[0].endswith("exit code 0")
    assert "there is no task 'ent'" in texts[1] and texts[1].endswith("exit code 2")


def test_times_are_no_part_of_a_fingerprint_and_all_numbers_are(tmp_path):
    def found(value, seconds):
        save_file({"parameters": torch.tensor([value])}, tmp_path / "learner.safetensors")
        (tmp_path / "metrics.jsonl").write_text(json.dumps({"kl": value, "learn_s": seconds, "gmis": {"0": seconds}}))
        (tmp_path / "checkpoint.json").write_text(json.dumps({"env_steps": value, "digest": seconds}))
        (tmp_path / "layout.yaml").write_text(f"num_env: {value}")
        (tmp_path / "state.json").write_text(str(seconds))
        return fingerprint(tmp_path)

    assert found(1.0, 1.0) == found(1.0, 2.0)
    one, other = found(1.0, 1.0), found(2.0, 1.0)
    assert len(one) == 5 and one.keys() == other.keys() and all(one[name] != other[name] for name in one)


def test_cases_cover_all_tasks_learners_templates_and_reductions_of_cores(tmp_path):
    cases = same_cases.cases()
    assert len({case.name for case in cases}) == len(cases)
    layouts = []
    for text in (text for case in cases for name, text in case.files.items() if name != "h100.yaml"):
        (tmp_path / "layout.yaml").write_text(text)
        layouts.append(load_yaml(Layout, tmp_path / "layout.yaml"))
    assert {layout.task for layout in layouts} == set(same_cases.TASKS) and len(same_cases.TASKS) == 11
    assert {template_of(layout).name for layout in layouts} == {"TCG_EX", "TDG_EX", "decoupled", "TCG"}
    reductions = {group.reduction for layout in layouts for group in layout.groups.values()}
    assert reductions == {"none", "MPR-shm", "MPR-gloo", "HAR", "SHARD", "MRR"}
    assert any(device.node for layout in layouts for device in layout.devices)


def test_nodes_of_a_layout_are_processes_here(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(on_nodes, "train", lambda job, *, supervisors: asked.append((job, supervisors)))
    (tmp_path / "layout.yaml").write_text(LAYOUT)
    on_nodes.main(str(tmp_path / "layout.yaml"), str(tmp_path / "run"), "3")
    ((job, supervisors),) = asked
    assert job.layout.task == "ball_balance" and job.config.iterations == 3 and isinstance(job.folder, RunFolder)
    assert isinstance(supervisors, on_nodes.SubprocessSupervisors)
