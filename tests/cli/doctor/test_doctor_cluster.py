import pytest

from gmi_drl.cli.doctor.cluster import rows_of
from gmi_drl.launch.ray.cluster import RayNode
from gmi_drl.launch.ray.report import NodeReport

VERSIONS = {"python": "3.11.9", "torch": "2.13.0", "mujoco": "-"}


def report(name="a", *, cpus=4, gpus=0, model=None, versions=VERSIONS, cores=4, reaches=True, niceness=0, fault=""):
    node = RayNode(id=name, name=name, address="10.0.0.1", cpus=cpus, gpus=gpus, gpu_model=model)
    return NodeReport(node, versions, cores, reaches, niceness, fault)


def test_what_a_node_has_is_told():
    (row,) = rows_of([report(gpus=8, model="H100")])
    assert row["verdict"] == "ok" and row["remedy"] == ""
    assert row["seen"] == "10.0.0.1, 4 CPUs, 8 GPUs (H100); python 3.11.9, torch 2.13.0, mujoco not installed"


@pytest.mark.parametrize(
    ("other", "remedy"),
    [
        (report("b", versions={**VERSIONS, "torch": "2.7.0"}), "install what a has: torch 2.13.0"),
        (report("b", versions={**VERSIONS, "mujoco": "4.0.0"}), "install what a has: mujoco (none)"),
        (report("b", reaches=False), "let 10.0.0.1 open TCP connections to 10.0.0.1"),
        (report("b", cpus=64), "offers 64 CPUs but may use only 4 cores"),
        (report("b", versions={}, fault="No module named 'gmi_drl'"), "needs gmi-drl"),
    ],
    ids=["another torch", "what the launcher lacks", "no way back", "more CPUs than cores", "no answer"],
)
def test_a_node_that_cannot_has_a_remedy(other, remedy):
    first, row = rows_of([report(), other])
    assert first["verdict"] == "ok" and row["verdict"] == "missing" and remedy in row["remedy"]


def test_a_node_that_gave_no_answer_is_no_measure_for_others():
    _, row = rows_of([report(versions={}, fault="gone"), report("b")])
    assert row["verdict"] == "ok"


def test_a_node_whose_gmis_give_way_is_ok_and_told_how_they_would_not():
    (row,) = rows_of([report(niceness=15)])
    assert row["verdict"] == "ok" and "(nice value 15): start Ray with RAY_worker_niceness=0" in row["remedy"]
