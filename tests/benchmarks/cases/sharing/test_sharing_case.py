"""Does sharing pay: the layouts as of a GPU, the sides on cores."""

import pytest
from conftest import two_cores

from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases.common import shared_gpu
from gmi_drl.benchmarks.cases.sharing import sharing
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Cpu, Gpus, Links, Node
from gmi_drl.hardware.speeds import GPU_MEMORY, OF_CORES, Speed
from gmi_drl.profiler import speeds
from gmi_drl.templates import TCG_EX
from tests.gmi.nvml.fake import FakeGpu

H200S = Node(
    name="h200s",
    gpus=Gpus(model="NVIDIA H200", count=4),
    link="pcie",
    links=(Links(gpus=(2, 3), kind="nvlink"),),
    cpu=Cpu(cores=6, memory_gib=128),
)


def test_all_sides_are_on_the_first_gpu_and_need_a_core_for_each_gmi():
    cuts = sharing.layouts("ant", H200S, (shared_gpu.PLAIN,))
    assert list(cuts) == ["1 GMI", "2 GMIs, plain sharing", "4 GMIs, plain sharing"]  # there are six cores
    assert all([(d.kind, d.index) for d in layout.devices] == [("gpu", 0)] for layout in cuts.values())
    assert [len(layout.gmis) for layout in cuts.values()] == [1, 2, 4]
    assert sorted(core for gmi in cuts["4 GMIs, plain sharing"].gmis for core in gmi.cores) == [0, 1, 2, 3, 4, 5]


def test_the_first_gpu_alone_is_a_node():
    alone = shared_gpu.one_device(H200S)
    assert alone.num_gpus == 1 and Node.model_validate(alone.model_dump()) == alone


def test_one_gmi_under_mps_is_a_side_of_its_own_and_several_are_capped_or_not():
    cuts = sharing.layouts("ant", H200S, (shared_gpu.MPS, shared_gpu.CAPPED_MPS))
    assert list(cuts) == ["1 GMI, MPS", "2 GMIs, MPS", "4 GMIs, MPS", "2 GMIs, capped MPS", "4 GMIs, capped MPS"]
    assert {layout.backend for layout in cuts.values()} == {"mps"}
    assert [layout.gmis[0].share for layout in cuts.values()] == [None, None, None, 0.5, 0.25]
    assert sharing._name(1, shared_gpu.PLAIN) == sharing.SOLO


@two_cores
def test_speeds_that_a_plan_has_measured_on_the_one_gpu_of_a_machine_are_known(fake_nvml, monkeypatch):
    fake_nvml.add(FakeGpu(name="NVIDIA H200"))
    speeds.remember(this_node(), "process", OF_CORES)
    monkeypatch.setattr(speeds, "measured_speeds", lambda *_: 1 / 0)
    shared_gpu.measure_speeds(this_node(), ["process"])
    assert shared_gpu.shared("ant", this_node(), TCG_EX, 2, shared_gpu.PLAIN).groups["trainers"].reduction == "MPR-shm"


def test_gmis_of_a_gpu_reduce_as_was_measured_by_each_way_of_sharing_it(monkeypatch):
    measured = []

    def measure(node, backend):
        measured.append((node.num_gpus, backend))
        return OF_CORES if backend == "mps" else {**OF_CORES, GPU_MEMORY: Speed(round_s=0.0, bytes_per_second=1e12)}

    monkeypatch.setattr(speeds, "measured_speeds", measure)
    shared_gpu.measure_speeds(H200S, ["process", "mps", "mps"])
    assert measured == [(1, "process"), (1, "mps")]
    cuts = sharing.layouts("ant", H200S, (shared_gpu.PLAIN, shared_gpu.MPS, shared_gpu.CAPPED_MPS))
    taken = {(one.backend, one.groups["trainers"].reduction) for one in cuts.values() if len(one.gmis) > 1}
    assert taken == {("process", "IPC"), ("mps", "MPR-shm")}
    shared_gpu.measure_speeds(H200S.model_copy(update={"gpus": None}), ["process"])
    assert len(measured) == 2, "cores have no choice"


@two_cores
@pytest.mark.parametrize("find_best", [False, True])
def test_all_sides_have_as_many_environments(monkeypatch, find_best):
    monkeypatch.setattr(sharing, "SIZES", (1, 2))
    monkeypatch.setattr(shared_gpu.requirements, "warp_on_gpu", lambda: None)
    monkeypatch.setattr(shared_gpu.requirements, "mps", lambda: "none here")
    result = run_case(sharing.case("ant", find_best=find_best), repeats=1, quick=True)
    assert list(result.samples) == ["1 GMI", "2 GMIs, plain sharing"]
    totals = {sample.details["gmis"] * sample.details["num_env"] for (sample,) in result.samples.values()}
    assert len(totals) == 1 and totals <= set(sharing.QUICK_TOTALS)
    ratio = result.samples["2 GMIs, plain sharing"][0].value / result.samples["1 GMI"][0].value
    assert result.ratios["2 GMIs, plain sharing"].median == pytest.approx(ratio)


def test_on_cores_there_is_plain_sharing_alone(monkeypatch):
    monkeypatch.setattr(shared_gpu.requirements, "warp_on_gpu", lambda: "no GPU")
    assert shared_gpu.ways() == ("process",)
    for name in ("warp_on_gpu", "mps"):
        monkeypatch.setattr(shared_gpu.requirements, name, lambda: None)
    assert shared_gpu.ways() == ("process", "mps", "capped mps")


def fails():
    raise GmiError("no room\n  its log")


def test_sides_that_do_not_run_are_left_out_and_listed():
    sides = {"solo": lambda: Sample(1.0, {"gmis": 1}), "eight": fails, "two": lambda: Sample(2.0)}
    with shared_gpu.those_that_run(sides) as running:
        assert list(running) == ["solo", "two"]
        assert running["solo"]() == Sample(1.0, {"gmis": 1, "left_out": {"eight": "no room"}})
    with pytest.raises(GmiError, match="no room"), shared_gpu.those_that_run({"solo": fails, "two": sides["two"]}):
        pass
    with (
        pytest.raises(MachineError, match="eight: no room"),
        shared_gpu.those_that_run({"s": sides["solo"], "eight": fails}),
    ):
        pass
    with shared_gpu.those_that_run({"solo": sides["solo"], "two": sides["two"]}) as running:
        assert running["solo"]() == Sample(1.0, {"gmis": 1})
