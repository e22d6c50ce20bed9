"""What each worker does, function by function, and the phases of a second of each."""

import json

import pytest
import worker_profile


@pytest.mark.parametrize("name", sorted(worker_profile.WORKERS))
def test_costs_of_each_worker_are_told(name, monkeypatch):
    for constant, small in {"ROUNDS": 1, "WARM_UP": 1, "REQUESTS": 8}.items():
        monkeypatch.setattr(worker_profile, constant, small)
    found = worker_profile.WORKERS[name]()
    seconds = [own_s for _, own_s in found]
    assert len(found) > 10 and seconds == sorted(seconds, reverse=True) and seconds[0] > 0


def test_a_second_of_each_worker_is_drawn(tmp_path):
    phases = {
        "sim_s": 1.0,
        "act_s": 3.0,
        "fetch_s": 0.0,
        "wait_s": 0.0,
        "learn_s": 1.0,
        "sync_s": 3.0,
        "publish_s": 0.0,
    }
    rows = [{"iteration": n, **phases, "requests_wait_s": 1.0, "versions_wait_s": 0.0} for n in range(3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = worker_profile.second_of(tmp_path)
    assert told["actor"]["simulate"] == 0.25 and told["trainer"]["learn"] == 0.25
    assert told["policy worker"] == {"answer": 0.75, "wait for requests": 0.25, "wait for versions": 0.0}
    worker_profile.draw(told).savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
