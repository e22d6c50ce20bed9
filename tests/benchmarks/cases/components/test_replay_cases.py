from functools import partial

import pytest

from gmi_drl.benchmarks.cases.components import replay, replay_gather, replay_learning, replay_rings

ALL = [*replay.CASES, *replay_gather.CASES, *replay_rings.CASES, *replay_learning.CASES]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_small_sizes_are_measured_without_peers(case, monkeypatch):
    monkeypatch.setattr(replay, "QUICK_SECONDS", 0.01)
    monkeypatch.setattr(replay_gather, "QUICK_ROWS", 300)
    monkeypatch.setattr(replay_learning, "QUICK_CALLS", 1)
    with case.open(True) as sides:
        assert next(iter(sides)).startswith("gmi-drl")
        assert not {"cpprb", "torchrl"} & set(sides)
        assert all(side().value > 0 for side in sides.values())


def test_a_case_without_its_peers_says_how_to_get_them(monkeypatch):
    monkeypatch.setattr(replay.peers, "REPOSITORY", replay.peers.REPOSITORY / "nowhere")
    assert "run it from a checkout" in partial(replay.obstacle, ("cpprb",))()
