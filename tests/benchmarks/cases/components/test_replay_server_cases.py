import json

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.common import growing
from gmi_drl.benchmarks.cases.components import replay_clients, replay_face, replay_server
from gmi_drl.benchmarks.cases.components.replay_workers import FOLDER


def test_a_server_and_a_client_are_measured_without_peers(monkeypatch):
    monkeypatch.setattr(replay_server, "CLIENTS", (1,))
    monkeypatch.setattr(replay_server, "FILL_S", 0.02)
    monkeypatch.setattr(replay_server, "QUICK_SECONDS", 0.02)
    cases = {case.name: case for case in replay_server.CASES}
    with cases["replay_server_sample_400"].open(True) as sides:
        assert set(sides) == {"gmi-drl, TCP", "gmi-drl, shared memory"}
        for side in sides.values():
            sample = side()
            assert sample.value > 0 and sample.details["prioritized_items_per_second"] > 0


def test_one_item_a_call_is_measured_without_peers():
    cases = {case.name: case for case in replay_face.CASES}
    for name in ("replay_face_append_400", "replay_face_update_100"):
        with cases[name].open(True) as sides:
            assert [side().value > 0 for side in sides.values()] == [True]


def test_light_clients_are_counted(monkeypatch):
    monkeypatch.setattr(replay_clients, "QUICK_SECONDS", 0.05)
    (clients, _) = replay_clients.CASES
    with clients.open(True) as sides:
        for side in sides.values():
            sample = side()
            assert sample.details[CURVES]["clients"] == [1, 2] and sample.value > 0
            assert 0 < sample.details["least_of_mean_2"] <= 1
            each_s = [count / rate for count, rate in zip([1, 2], sample.details[CURVES]["items/s"], strict=True)]
            assert sample.details["exponent"] == growing.exponent([1, 2], each_s)
            assert sample.details["bends_at"] == growing.bend([1, 2], each_s)
            json.dumps(sample.details)


def test_both_systems_have_the_same_functions():
    names = [
        [line.split("(")[0] for line in (FOLDER / f"{system}_system.py").read_text().splitlines() if line[:4] == "def "]
        for system in ("gmi_drl", "reverb")
    ]
    assert names[0] == names[1]
