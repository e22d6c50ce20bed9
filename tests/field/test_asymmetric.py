"""Anymal with noise: each of three programs trains in it, and the critic alone sees the truth."""

import asymmetric
import pytest
import torch

from gmi_drl.tasks import check_task


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
