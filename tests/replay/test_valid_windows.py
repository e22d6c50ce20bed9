import torch

from gmi_drl.replay.selectors import Prioritized
from gmi_drl.replay.valid_windows import ValidWindows
from tests.replay.test_ring import STEPS, History, N, add, made


def test_just_the_valid_windows_are_noted_however_many_steps_came_between(monkeypatch):
    monkeypatch.setattr("gmi_drl.replay.valid_windows.AT_ONCE", 2 * N)
    ring, history = made(2), History(3)
    windows = ValidWindows(ring.total, ring.device)
    for steps in (1, 5, STEPS - 3, 1, 1, 2 * STEPS + 3, 4):
        for _ in range(steps):
            add(ring, history)
        windows.renew(ring)
        wanted = {t % STEPS * N + e for t, e in history.windows(2, is_twice=False)}
        assert set(windows.is_valid.nonzero().flatten().tolist()) == wanted
    assert not list(windows.changes(ring))
    windows.forget()
    windows.renew(ring)
    assert set(windows.is_valid.nonzero().flatten().tolist()) == wanted


def test_points_find_each_valid_window_alike():
    windows = ValidWindows(9, torch.device("cpu"))
    windows.is_valid[[2, 3, 8]] = True
    points = torch.tensor([0.0, 0.3, 0.34, 0.6, 0.67, 1 - 2**-53], dtype=torch.float64)
    assert windows.find(points).tolist() == [2, 2, 3, 3, 8, 8]
    assert ValidWindows(9, torch.device("cpu")).find(points).tolist() == [8] * 6


def test_a_ring_goes_on_with_what_was_known():
    ring, history = made(1, sampler=Prioritized(1.0)), History(3)
    for _ in range(STEPS + 4):
        add(ring, history)
    known, again = ValidWindows(ring.total, ring.device), ValidWindows(ring.total, ring.device)
    known.renew(ring)
    again.load(ring, known.is_valid)
    assert not list(again.changes(ring))
    assert torch.equal(again.counts, known.counts)
