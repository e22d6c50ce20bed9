import math

import pytest
from conftest import two_cores

from gmi_drl.config.run_config import default_config
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.hardware.speeds import GLOO, GPU_MEMORY, LINK, MEMORY, OF_CORES, Speed
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.reductions import HAR, MPR_GLOO, MPR_SHM
from gmi_drl.profiler import speeds as module
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.speeds import (
    NUMELS,
    SpeedsWhenAsked,
    fitted,
    known_communication,
    measured_speeds,
    remember,
    speeds_here,
)
from gmi_drl.templates import TCG, TCG_EX, Decoupled
from gmi_drl.templates.cost import FAILED, IPC_UNMEASURED, NO_TIME, UNTRIED
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
PAIR = [[0], [1]]
OF_HOSTS = (MPR_SHM, MPR_GLOO, HAR)
GPU = Node(name="n", gpus=Gpus(model="NVIDIA H200", count=1), cpu=Cpu(cores=2, memory_gib=8))
IN_GPU = {**OF_CORES, GPU_MEMORY: Speed(round_s=1e-6, bytes_per_second=1e12)}


def here(node, told=None, backends=("process",), seconds=math.inf, **more):
    return speeds_here(node, backends, Budget(seconds), tell=(told if told is not None else []).append, **more)


def communication(speeds):
    return TCG_EX.communication(ANT, default_config(ANT).learner, GPU, speeds=speeds)


def times(mapping, speeds, methods=OF_HOSTS):
    return {method: tuple(method.seconds(mapping, 4 * numel, speeds) for numel in NUMELS) for method in methods}


def test_speeds_are_those_by_which_the_model_takes_as_long():
    found = fitted(times(PAIR, OF_CORES), PAIR)
    assert found.keys() == {MEMORY, GLOO, LINK}
    for way, speed in found.items():
        assert speed.round_s == pytest.approx(OF_CORES[way].round_s)
        assert speed.bytes_per_second == pytest.approx(OF_CORES[way].bytes_per_second)


def test_unused_link_has_no_speed():
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
    found = here(this_node(), told)
    assert found["process"].keys() == {MEMORY, GLOO, LINK} and len(told) == 1
    monkeypatch.setattr(module, "measured_speeds", lambda *_: 1 / 0)
    assert here(this_node(), told) == found and len(told) == 1
    (path,) = (tmp_path / "speeds").iterdir()
    path.write_text("{")
    slow = {MEMORY: Speed(round_s=1.0, bytes_per_second=2.0)}
    monkeypatch.setattr(module, "measured_speeds", lambda *_: slow)
    assert here(this_node()) == {"process": slow} == here(this_node())


def test_what_cannot_be_measured_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    alone, told = Node(name="tiny", cpu=Cpu(cores=1, memory_gib=1)), []
    with pytest.raises(GmiError, match="two GMIs need two cores, tiny has one"):
        measured_speeds(alone)
    assert here(alone, told) == {"process": {}} and "two cores" in told[0] and not list(tmp_path.iterdir())


@pytest.mark.parametrize("failure", ["GMI 1 has not answered within 30 s", "GMI 0 died: SIGSEGV"])
def test_ipc_is_not_used_where_measuring_it_has_just_failed(tmp_path, monkeypatch, failure):
    def fail(node, backend):
        raise GmiError(failure)

    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "measured_speeds", fail)
    told = []
    speeds = here(GPU, told)
    assert told[-1].startswith("how fast GMIs reduce by process cannot be measured, so they use host memory: ")
    layout = TCG_EX.lay_out(ANT, GPU, Cut(2, 8), communication=communication(speeds))
    assert layout.groups["trainers"].reduction == "MPR-shm" and layout.reasons[-1].endswith(FAILED)


def test_a_plan_without_time_for_speeds_says_so_of_the_ipc_that_it_takes(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    layout = TCG_EX.lay_out(ANT, GPU, Cut(2, 8), communication=communication(here(GPU, seconds=1.0)))
    assert layout.groups["trainers"].reduction == "IPC" and layout.reasons[-1] == NO_TIME
    unplanned = TCG_EX.lay_out(ANT, GPU, Cut(2, 8), communication=communication(None))
    assert unplanned.reasons[-1] == UNTRIED


def test_trainers_of_one_of_several_gpus_are_told_that_ipc_was_not_measured():
    two = Node(name="n", gpus=Gpus(model="NVIDIA H200", count=2), cpu=Cpu(cores=4, memory_gib=8))
    speeds = {"process": OF_CORES}  # between two GPUs, where IPC is not legal
    between = Decoupled(2).communication(ANT, default_config(ANT, "a3c").learner, two, speeds=speeds)
    reasons = Decoupled(2).lay_out(ANT, two, Cut(2, 8), communication=between).reasons
    assert reasons[-1].endswith(IPC_UNMEASURED)
    assert IPC_UNMEASURED not in communication({"process": IN_GPU}).why([[0, 1]])
    assert IPC_UNMEASURED not in communication(speeds).why([[0], [1]]), "two GPUs cannot use it"


def test_each_backend_is_measured_once_on_gpus_and_cores_once_for_all(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    measured, told = [], []

    def count(node, backend):
        measured.append(backend)
        if backend == "mig":
            raise GmiError("no instances")
        return {MEMORY: Speed(round_s=float(len(measured)), bytes_per_second=1.0)}

    monkeypatch.setattr(module, "measured_speeds", count)
    known = here(GPU, told, ["process", "mps", "mig"])
    assert measured == ["process", "mps", "mig"] and known.pop("mig") == {} and "no instances" in told[-1]
    assert {backend: speeds[MEMORY].round_s for backend, speeds in known.items()} == {"process": 1.0, "mps": 2.0}
    assert here(GPU, backends=["mps", "process"]) == known and len(measured) == 3
    assert here(GPU, backends=["mps"], fresh=True)["mps"][MEMORY].round_s == 4.0
    cores = here(GPU.model_copy(update={"gpus": None}), backends=["process", "auto"])
    assert measured[4:] == ["process"] and cores["auto"] == cores["process"]


def test_speeds_are_measured_only_if_the_budget_has_time_for_a_point_after_them(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "measured_speeds", lambda *_: {})
    told = []
    assert here(GPU, told, seconds=10.0) == {} and "no time to measure how fast GMIs reduce by process" in told[0]
    assert here(GPU, told, seconds=100.0) == {"process": {}}


def test_a_layout_of_gpus_that_nobody_plans_takes_the_fastest_that_was_measured_by_its_backend(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CACHE", str(tmp_path))
    learner = default_config(ANT).learner

    def known(backend, node=GPU):
        return known_communication(ANT, learner, node, TCG_EX, backend)

    assert known("process") is None
    remember(GPU, "process", IN_GPU)
    remember(GPU, "mps", OF_CORES)  # this GPU lets no client of MPS map memory
    methods = [known(backend).method([[0, 1]]).name for backend in ("process", "mps", "auto")]
    assert methods == ["IPC", "MPR-shm", "MPR-shm"] and known("mig") is None
    cores = GPU.model_copy(update={"gpus": None})
    remember(cores, "process", OF_CORES)
    assert known("process", cores) is None, "the usual one is the fastest there"


@pytest.mark.parametrize(
    ("node", "measured"), [(GPU, ["process", "mps"]), (GPU.model_copy(update={"gpus": None}), ["process"])]
)
def test_speeds_are_measured_when_they_are_asked_for_and_once(monkeypatch, node, measured):
    found = []
    monkeypatch.setattr(module, "measured_speeds", lambda _, by: found.append(by) or OF_CORES)
    learner = default_config(ANT).learner
    more = {"fresh": True, "tell": lambda line: None}
    asked = SpeedsWhenAsked(ANT, learner, node, TCG_EX, **more)
    asked.about([Cut(1, 8), Cut(1, 16, "mps")], Budget(math.inf))
    assert asked.known == {} and not found, "one GMI reduces with none"
    asked.about([Cut(2, 8), Cut(4, 8), Cut(2, 8, "mps"), Cut(1, 8, "mig")], Budget(math.inf))
    assert found == measured and asked("mps", Budget(0)) == {"process": OF_CORES, "mps": OF_CORES}
    late = SpeedsWhenAsked(ANT, learner, node, TCG_EX, **more)
    assert late("process", Budget(0)) == {} and late("process", Budget(math.inf)) == {"process": OF_CORES}
    serving = SpeedsWhenAsked(ANT, learner, node, TCG, **more)
    assert serving("process", Budget(math.inf)) == {} and found == [*measured, "process"]
