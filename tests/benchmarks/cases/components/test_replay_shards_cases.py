import pytest

from gmi_drl.benchmarks.cases.components import replay_shards


@pytest.mark.parametrize("case", replay_shards.CASES[3:], ids=lambda case: case.name)
def test_small_sizes_are_measured_without_peers(case, monkeypatch):
    monkeypatch.setattr(replay_shards, "BEST", 32)
    monkeypatch.setattr(replay_shards, "CONTEXTS", 4)
    with case.open(True) as sides:
        assert "dm-reverb" not in sides
        values = {name: side().value for name, side in sides.items()}
    assert all(value > 0 for value in values.values())
    if case.name == "shards_placement":  # bytes, not seconds
        assert values["by priority"] < 0.5 * values["even"]
