"""Which node of a cluster a layout's node becomes, without a cluster."""

import pytest

from gmi_drl.errors import LayoutMismatchError, MachineError
from gmi_drl.launch.ray import cluster
from gmi_drl.launch.ray.cluster import RayNode, running_nodes
from gmi_drl.launch.ray.placement import Share, assigned, assigned_in_time, shares_of
from gmi_drl.layout.layout import GMI, Device, Layout


def node(name, cpus=4, gpus=0, *, here=False):
    return RayNode(id=f"{name}0123456789", name=name, address=f"10.0.0.{len(name)}", cpus=cpus, gpus=gpus, is_here=here)


def gmi(number, *cores):
    return GMI(id=number, roles=("simulator",), num_env=1, cores=cores)


def test_a_share_is_all_cores_and_the_gpus_up_to_the_highest():
    layout = Layout(
        devices=(
            Device(node="a", kind="gpu", index=2, gmis=(gmi(0, 0, 1), gmi(1, 2))),
            Device(node="b", kind="cpu", gmis=(gmi(2, 5),)),
        )
    )
    assert shares_of(layout) == {"a": Share(3, 3), "b": Share(1, 0)}


def test_cores_that_gmis_share_are_taken_once():
    layout = Layout(share_cores=True, devices=(Device(kind="cpu", gmis=(gmi(0, 0), gmi(1, 0))),))
    assert shares_of(layout) == {None: Share(1, 0)}


def test_named_nodes_are_taken_by_name_address_or_beginning_of_the_id():
    nodes = [node("head", here=True), node("worker"), node("third")]
    shares = dict.fromkeys(("worker", "10.0.0.4", "third012"), Share(1, 0))
    assert [found.name for found in assigned(shares, nodes).values()] == ["worker", "head", "third"]


def test_two_nodes_of_a_layout_do_not_get_the_same_one_by_its_name_and_its_address():
    shares = dict.fromkeys(("worker", "10.0.0.6"), Share(1, 0))
    with pytest.raises(LayoutMismatchError, match="no node of the Ray cluster is left for worker, which takes 1 CPUs"):
        assigned(shares, [node("worker"), node("third")])


def test_a_cluster_of_its_own_is_none_that_others_have_started(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setattr(cluster, "_answering_heads", lambda: {"10.0.0.1:6379"})
    with pytest.raises(MachineError, match="RAY_ADDRESS=local starts another cluster: leave it out, or name one"):
        running_nodes()


def test_a_name_that_two_nodes_have_is_no_name():
    twins = [node("twin"), RayNode(id="other", name="twin", address="10.0.0.9", cpus=1, gpus=0)]
    assert assigned({"twin": Share(4, 0)}, twins)["twin"].id == "twin0123456789"


def test_other_nodes_get_the_least_that_suffices_the_largest_first():
    nodes = [node("head", here=True), node("big", 64, 8), node("small", 16, 2)]
    shares = {"x": Share(1, 0), "y": Share(8, 1), "z": Share(8, 4)}
    assert {name: found.name for name, found in assigned(shares, nodes).items()} == {
        "x": "head",
        "y": "small",
        "z": "big",
    }


def test_among_equals_the_launchers_machine_is_first():
    assert assigned({None: Share(1, 0)}, [node("a", 2), node("b", 8, here=True)])[None].name == "b"


@pytest.mark.parametrize(
    "shares",
    [
        {"a": Share(1, 0), "b": Share(1, 0), "c": Share(1, 0)},
        {"a": Share(5, 0)},
        {"head": Share(5, 0)},
        {"head": Share(1, 1)},
    ],
    ids=["too few", "too small", "named and too small", "no GPU"],
)
def test_what_does_not_fit_is_told_with_what_there_is(shares):
    with pytest.raises(LayoutMismatchError, match=r"which takes \d CPUs.*head 4 CPUs, worker 4 CPUs"):
        assigned(shares, [node("head", here=True), node("worker")])


def test_nodes_that_are_still_joining_are_waited_for():
    looks = iter([[node("head", here=True)], [node("head", here=True), node("worker")]])
    on = assigned_in_time({"a": Share(1, 0), "b": Share(1, 0)}, lambda: next(looks))
    assert {found.name for found in on.values()} == {"head", "worker"}


def test_nodes_that_do_not_come_are_an_error_in_time():
    with pytest.raises(LayoutMismatchError, match="no node of the Ray cluster is left for b"):
        assigned_in_time({"a": Share(1, 0), "b": Share(1, 0)}, lambda: [node("head", here=True)], wait_s=0.0)
