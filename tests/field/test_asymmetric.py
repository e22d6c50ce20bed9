"""Anymal with noise: each of three programs trains in it, and the critic alone sees the truth."""

import json
import re

import asymmetric
import pytest
import torch

from gmi_drl.tasks import check_task

LATE = {"asymmetric": 20.0, "symmetric": 15.0, "rsl_rl": 10.0}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setattr(asymmetric, "NUM_ENV", 32)
    monkeypatch.setattr(asymmetric, "STEPS", 3 * 16 * 32)
    yield
    torch.set_num_threads(threads)


def test_the_policy_sees_noise_and_the_critic_the_truth_too():
    task = asymmetric.Noisy(3)
    check_task(task)
    seen, true = task.obs.chunk(2, -1)
    noise = (seen - true).abs()
    largest = torch.tensor(asymmetric.SPREAD) * asymmetric.NOISE
    assert (noise <= largest + 1e-5).all() and (noise[:, :9] > 0).any(0).all() and not noise[:, 36:].any()


def test_all_sides_train_and_none_is_another_one():
    pytest.importorskip("rsl_rl", reason="rsl-rl-lib is not installed")
    told = [asymmetric.train(side, 7) for side in asymmetric.SIDES]
    assert [run["side"] for run in told] == list(asymmetric.SIDES)
    assert all(len(run["returns"]) == 3 for run in told)
    assert len({str(run["returns"]) for run in told}) == 3


def test_tables_tell_the_ratio_to_rsl_rl_with_its_interval(tmp_path, monkeypatch, capsys):
    runs = [{"side": side, "seed": seed, "late": late + seed} for side, late in LATE.items() for seed in (1, 2, 3)]
    (tmp_path / "anymal.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
    monkeypatch.setattr(asymmetric, "FILE", tmp_path / "anymal.jsonl")
    asymmetric.tell()
    ours, _, theirs = capsys.readouterr().out.splitlines()
    ratio, low, high, p = map(float, re.search(r"; ratio (.+) \((.+) to (.+)\), p (.+)", ours).groups())
    assert ratio == 1.83 and 1.5 < low < ratio < high < 2.2 and p == 0.1 and "ratio" not in theirs
