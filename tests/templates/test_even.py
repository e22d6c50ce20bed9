import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.files import parse
from gmi_drl.hardware.node import Cpu, CpuDevices, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import HOLISTIC, Layout
from gmi_drl.templates import usual_gmis_per_gpu
from gmi_drl.templates.even import described, even_devices


def node(cores=8, **more):
    siblings = more.pop("siblings", None)
    return Node(name="n", cpu=Cpu(cores=cores, memory_gib=8, siblings=siblings), **more)


def cut(node, gmis, num_env=4):
    return even_devices(node, Cut(gmis or usual_gmis_per_gpu(node), num_env), HOLISTIC)


def cores_of(devices):
    return [[gmi.cores for gmi in device.gmis] for device in devices]


def test_a_cpu_is_cut_into_one_gmi_per_physical_core():
    assert cores_of(cut(node(cores=2), None)) == [[(0,), (1,)]]
    siblings = ((0, 2), (1, 3))
    assert cores_of(cut(node(cores=4, siblings=siblings), None)) == [[(0, 2), (1, 3)]]
    assert usual_gmis_per_gpu(node(cpus=CpuDevices(cores_each=3, count=2))) == 3


def test_more_gmis_than_cores_take_turns_where_that_is_asked_for():
    described = node(cores=2, cpus=CpuDevices(cores_each=1, count=2))
    with pytest.raises(
        NoFeasiblePlanError, match=r"3 GMIs on cpu 0 need 3 cores, it has 1: .* plan --budget 0 --share-cores"
    ):
        even_devices(described, Cut(3, 4), HOLISTIC)
    shared = even_devices(described, Cut(3, 4, share_cores=True), HOLISTIC)
    assert cores_of(shared) == [[(0,)] * 3, [(1,)] * 3]
    assert cores_of(even_devices(node(cores=4), Cut(2, 4, share_cores=True), HOLISTIC)) == [[(0, 1), (2, 3)]]


def test_a_gpu_has_one_gmi_where_nobody_says_how_many():
    assert usual_gmis_per_gpu(node(gpus=Gpus(model="A100", count=2))) == 1


def test_siblings_stay_together_until_there_are_more_gmis_than_cores():
    siblings = ((0, 2), (1, 3))
    assert cores_of(cut(node(cores=4, siblings=siblings), 1)) == [[(0, 1, 2, 3)]]
    assert cores_of(cut(node(cores=4, siblings=siblings), 4)) == [[(0,), (2,), (1,), (3,)]]


def test_described_devices_and_gpus():
    assert cores_of(cut(node(cpus=CpuDevices(cores_each=2, count=3)), 2)) == [
        [(0,), (1,)],
        [(2,), (3,)],
        [(4,), (5,)],
    ]
    devices = cut(node(gpus=Gpus(model="A100", count=2)), 2)
    assert [device.kind for device in devices] == ["gpu", "gpu"] and [g.id for d in devices for g in d.gmis] == [
        0,
        1,
        2,
        3,
    ]
    assert cores_of(devices) == [[(0, 1), (2, 3)], [(4, 5), (6, 7)]]


@pytest.mark.parametrize(("cores", "gmis", "more"), [(2, 3, {}), (2, 1, {"gpus": Gpus(model="A100", count=3)})])
def test_more_gmis_than_cores_is_not_feasible(cores, gmis, more):
    with pytest.raises(NoFeasiblePlanError, match=f"have|has {cores}"):
        cut(node(cores=cores, **more), gmis)


@given(st.integers(1, 64), st.integers(1, 64))
def test_every_core_goes_to_one_gmi_and_shares_differ_by_one_at_most(cores, gmis):
    if gmis > cores:
        return
    (device,) = cut(node(cores=cores), gmis, 1)
    shares = [gmi.cores for gmi in device.gmis]
    assert sorted(core for share in shares for core in share) == list(range(cores))
    assert len(shares) == gmis and max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(1, 6), st.integers(1, 40), st.integers(1, 6), st.booleans())
def test_what_is_made_is_what_a_file_may_hold(gpus, cores, gmis, has_threads):
    """The planner's own GMIs pass the same checks as those that people write."""
    siblings = tuple((core, core + cores) for core in range(cores)) if has_threads else None
    described = node(cores=cores * (1 + has_threads), siblings=siblings, gpus=Gpus(model="A100", count=gpus))
    try:
        devices = cut(described, gmis, 8)
    except NoFeasiblePlanError:
        return
    made = Layout(devices=devices)
    assert parse(Layout, json.loads(made.model_dump_json()), "again") == made
    assert [made.device_of(gmi.id).index for gmi in made.gmis] == [i for i in range(gpus) for _ in range(gmis)]


def test_reasons_tell_the_share_of_a_gpu_that_each_is_held_to():
    gpus = Gpus(model="A100-SXM4-40GB", count=1)
    for form, share, told in (
        (Cut(3, 64, "mps", capped=True), 1 / 3, "each has at most 33 % of its GPU's SMs (35 of 108 of A100-SXM4-40GB)"),
        (Cut(3, 64, "mps"), None, "none is capped: each may use all SMs of its GPU"),
        (Cut(3, 64, "process"), None, ""),
    ):
        devices = even_devices(node(gpus=gpus), form, HOLISTIC)
        assert described(devices, form, node(gpus=gpus)).partition("; ")[2] == told
        assert {gmi.share for gmi in devices[0].gmis} == {share}
