import pytest
from conftest import two_cores

from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware import Cpu, Node
from gmi_drl.profiler import speeds as module
from gmi_drl.profiler.speeds import NUMELS, fitted, measured_speeds, speeds_here
from gmi_drl.reductions import HAR, MPR_GLOO, MPR_SHM
from gmi_drl.speeds import GLOO, LINK, MEMORY, OF_CORES, Speed

PAIR = [[0], [1]]
OF_HOSTS = (MPR_SHM, MPR_GLOO, HAR)


def times(mapping, speeds, methods=OF_HOSTS):
    return {method: tuple(method.seconds(mapping, 4 * numel, speeds) for numel in NUMELS) for method in methods}


def test_speeds_are_those_by_which_the_model_takes_as_long():
    found = fitted(times(PAIR, OF_CORES), PAIR)
    assert found.keys() == {MEMORY, GLOO, LINK}
    for way, speed in found.items():
        assert speed.round_s == pytest.approx(OF_CORES[way].round_s)
        assert speed.bytes_per_second == pytest.approx(OF_CORES[way].bytes_per_second)


def test_a_way_that_is_not_gone_has_no_speed():
    assert fitted(times([[0, 1]], OF_CORES), [[0, 1]]).keys() == {MEMORY, GLOO}
    assert fitted(times(PAIR, OF_CORES, [MPR_GLOO]), PAIR).keys() == {GLOO}


def test_noise_makes_no_speed_negative():
    found = fitted({MPR_SHM: (2e-5, 1e-5), HAR: (1e-9, 1e-9)}, PAIR)
    assert all(speed.round_s > 0 and speed.bytes_per_second > 0 for speed in found.values())


@two_cores
def test_this_machine_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "SECONDS", 0.02)
    told = []
    found = speeds_here(this_node(), tell=told.append)
    assert found.keys() == {MEMORY, GLOO, LINK} and len(told) == 1
    monkeypatch.setattr(module, "measured_speeds", lambda node: 1 / 0)
    assert speeds_here(this_node(), tell=told.append) == found and len(told) == 1
    (path,) = (tmp_path / "speeds").iterdir()
    path.write_text("{")
    monkeypatch.setattr(module, "measured_speeds", lambda node: {MEMORY: Speed(round_s=1.0, bytes_per_second=2.0)})
    assert speeds_here(this_node())[MEMORY].round_s == 1.0 == speeds_here(this_node())[MEMORY].round_s


def test_what_cannot_be_measured_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    alone, told = Node(name="tiny", cpu=Cpu(cores=1, memory_gib=1)), []
    with pytest.raises(GmiError, match="two GMIs need two cores, tiny has one"):
        measured_speeds(alone)
    assert speeds_here(alone, tell=told.append) is None and "two cores" in told[1] and not list(tmp_path.iterdir())
