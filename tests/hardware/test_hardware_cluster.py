import pytest

from gmi_drl.errors import UsageError
from gmi_drl.files import parse
from gmi_drl.hardware.cluster import Cluster, load_cluster
from gmi_drl.hardware.speeds import LINK, MEMORY, OF_CORES

NETWORK = {"gbit_per_s": 10.0, "round_trip_ms": 0.5}


def cores(name="n", count=8):
    return {"name": name, "cpu": {"cores": count, "memory_gib": 16.0}}


def gpus(name, model, count):
    return {"name": name, "gpus": {"model": model, "count": count}, "cpu": {"cores": 16, "memory_gib": 64.0}}


PARTS = {**cores("b", 8), "cpus": {"cores_each": 2, "count": 4}}


def cluster(*nodes, **more):
    return parse(Cluster, {"network": NETWORK, "nodes": list(nodes), **more}, "cluster")


def test_each_machine_has_a_name_of_its_own():
    made = cluster({"count": 2, "node": cores("a")}, {"node": cores("b")})
    assert [name for name, _ in made.named()] == ["a-0", "a-1", "b"] and made.count == 3


def test_two_machines_of_one_name_are_refused():
    with pytest.raises(UsageError, match="nodes of one name: a-1"):
        cluster({"node": cores("a"), "count": 2}, {"node": cores("a-1")})


def test_a_name_that_no_layout_may_have_is_refused():
    with pytest.raises(UsageError, match=r"names of nodes in a cluster have letters, digits.*not 'DGX A100'"):
        cluster({"node": cores("DGX A100")})


def test_two_kinds_of_one_name_are_refused_although_their_machines_have_others():
    with pytest.raises(UsageError, match="nodes of one name: a: give their kinds others"):
        cluster({"node": cores("a", 4)}, {"node": cores("a", 8), "count": 2})


def test_a_link_that_leaves_a_node_is_as_slow_as_the_network():
    speeds = cluster({"node": cores()}).speeds(None)
    assert speeds[LINK].bytes_per_second == 1.25e9
    assert speeds[LINK].round_s == pytest.approx(OF_CORES[LINK].round_s + 0.25e-3)
    assert speeds[MEMORY] == OF_CORES[MEMORY]


def test_all_nodes_together_have_what_each_has():
    whole = cluster({"count": 2, "node": gpus("a", "H100 PCIe", 4)}, {"node": gpus("b", "A30", 2)}).whole
    assert [(part.model, part.count) for part in whole.gpu_models] == [("H100 PCIe", 8), ("A30", 2)]
    assert whole.cpu.cores == 48 and whole.cpu.memory_gib == 160  # 16 GiB for each of 10, although b has more
    whole = cluster({"count": 3, "node": cores()}).whole
    assert whole.cpus.count == 3 and whole.cpus.cores_each == 8
    parts = cluster({"count": 2, "node": PARTS})
    assert parts.whole.cpus.count == 8 and parts.devices_by_node == (4, 4)


def test_the_machine_with_least_memory_decides_for_all():
    """All devices have equal GMIs, so what the others have more of is of no use."""
    small = {**cores("b"), "cpu": {"cores": 8, "memory_gib": 2.0}}
    assert cluster({"count": 3, "node": cores("a")}, {"node": small}).whole.cpu.memory_gib == 8
    halved = {**cores("b"), "cpu": {"cores": 4, "memory_gib": 4.0}}
    assert cluster({"node": cores("a")}, {"node": halved}).whole.cpu.memory_gib == 12


def test_a_node_of_more_cores_is_several_devices():
    unlike = cluster({"count": 2, "node": cores("a", 4)}, {"node": cores("b", 12)})
    assert unlike.whole.cpus.count == 5 and unlike.whole.cpus.cores_each == 4
    assert unlike.in_devices.devices_by_node == (1, 1, 3) and unlike.in_devices.in_devices == unlike.in_devices


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([{"node": cores("a")}, {"node": gpus("b", "A30", 1)}], "nodes with GPUs and nodes without"),
        ([{"node": cores("a", 4)}, {"node": cores("b", 6)}], "of 4 and 6 cores: take nodes whose cores are multiples"),
        ([{"node": cores("a", 4)}, {"node": PARTS}], "of 2 and 4 cores, but their `cpus` cuts them"),
        ([{"count": 100_000, "node": cores("a", 128)}], "has 12800000 cores in all, 10000000 can be planned"),
    ],
)
def test_nodes_that_cannot_be_planned_together_are_refused(nodes, said):
    with pytest.raises(UsageError, match=said):
        _ = cluster(*nodes).whole


def test_nodes_are_told_once():
    with pytest.raises(UsageError, match="by `node` or by `file`, one of them"):
        cluster({"count": 2})


def test_node_files_are_found_beside_the_cluster_file(tmp_path):
    (tmp_path / "node.yaml").write_text("name: a\ncpu: {cores: 4, memory_gib: 8}\n")
    file = tmp_path / "cluster.yaml"
    file.write_text("network: {gbit_per_s: 1, round_trip_ms: 1}\nnodes:\n- {count: 2, file: node.yaml}\n")
    assert [name for name, _ in load_cluster(file).named()] == ["a-0", "a-1"]
    file.write_text(file.read_text() + "- {file: node.yaml}\n")
    with pytest.raises(UsageError, match=r"cluster\.yaml: nodes of one name: a: give"):
        load_cluster(file)
    (tmp_path / "other.yaml").write_text("name: a-1\ncpu: {cores: 4, memory_gib: 8}\n")
    file.write_text(file.read_text().replace("- {file: node.yaml}", "- {file: other.yaml}"))
    with pytest.raises(UsageError, match=r"cluster\.yaml: nodes of one name: a-1"):
        load_cluster(file)
