"""Plans over several machines."""

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.scheduler import plan, plan_cluster
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import TCG, TCG_EX
from gmi_drl.templates.cost import by_host
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.workload import TASK_SPECS

ANT, PPO = TASK_SPECS["ant"], PPOConfig()
NODE = Node(name="dgx", gpus=Gpus(model="A100-SXM4-40GB", count=2), link="nvlink", cpu=Cpu(cores=8, memory_gib=64))
QUICK, SLOW = Network(gbit_per_s=100, round_trip_ms=0.05), Network(gbit_per_s=0.05, round_trip_ms=50)


def cluster(network=QUICK, count=3, node=NODE):
    return Cluster(network=network, nodes=(Nodes(count=count, node=node),))


def planned(where, template=TCG_EX, noise=None, host_bytes=0, **more):
    ran = {"num_env": 1024, "runnable": True, "host_bytes": host_bytes}
    points = tuple(ProfilePoint(gmis_per_gpu=gmis, steps_per_second=100_000.0 / gmis**0.5, **ran) for gmis in (1, 2))
    profile = Profile(task="ant", learner="ppo", node="dgx", noise=noise, points=points)
    return plan_cluster(ANT, PPO, where, profile, template=template, **more)


def test_every_node_is_cut_alike_and_all_gmis_reduce_together():
    layout = planned(cluster()).layout
    assert layout.nodes == ("dgx-0", "dgx-1", "dgx-2") and len(layout.devices) == 6
    assert [gmi.id for gmi in layout.gmis] == list(range(12))
    for node in layout.nodes:
        devices = layout.devices_on(node)
        assert [device.index for device in devices] == [0, 1]
        assert {core for device in devices for gmi in device.gmis for core in gmi.cores} == set(range(8))
    assert layout.groups["trainers"].reduction in ("HAR", "SHARD")
    assert layout.ranks_by_device("trainers") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_what_the_network_costs_is_told_and_grows_with_it():
    quick, slow = planned(cluster()), planned(cluster(Network(gbit_per_s=1, round_trip_ms=5)))
    assert quick.candidates[0].expected > slow.candidates[0].expected
    told = " ".join(slow.layout.reasons)
    assert (
        "3 nodes joined by 1 Gbit/s and 5 ms there and back: 16 sums of" in told and "x the steps/s of one node" in told
    )


def test_one_node_is_planned_where_more_are_slower():
    plan = planned(cluster(SLOW))
    assert plan.layout.nodes == (None,) and len(plan.layout.devices) == 2
    assert any("one node is best, dgx: " in reason and "all 3 do" in reason for reason in plan.layout.reasons)


def test_one_node_is_planned_where_a_smaller_one_has_no_memory_for_as_many_gmis():
    """All devices have equal GMIs."""
    small = NODE.model_copy(update={"name": "small", "cpu": Cpu(cores=8, memory_gib=1)})
    nodes = (Nodes(node=NODE), Nodes(node=small))
    plan = planned(Cluster(network=QUICK, nodes=nodes), host_bytes=2 * 2**30)
    assert plan.layout.nodes == (None,) and plan.layout.made_for.name == "dgx"
    assert "one node is taken, dgx, since all 2 cannot be planned: no plan: " in plan.layout.reasons[-1]
    assert "would take 8.0 GiB of the host's 2.0 GiB" in plan.layout.reasons[-1]


def test_all_nodes_have_as_many_gmis_as_the_one_with_fewest_cores_for_each():
    large = NODE.model_copy(update={"name": "large", "cpu": Cpu(cores=64, memory_gib=64)})
    nodes = (Nodes(node=NODE.model_copy(update={"cpu": Cpu(cores=2, memory_gib=64)})), Nodes(node=large))
    plan = planned(Cluster(network=QUICK, nodes=nodes))
    assert plan.layout.nodes == ("dgx", "large") and plan.candidates[0].cut.gmis_per_gpu == 1


def test_a_cluster_of_cores_has_a_gmi_for_each_physical_core():
    cpu = Cpu(cores=4, memory_gib=8, siblings=((0, 2), (1, 3)))
    cores = Cluster(network=QUICK, nodes=(Nodes(count=2, node=Node(name="threads", cpu=cpu)),))
    assert OverNodes(TCG_EX, cores).usual_gmis_per_gpu(cores.whole) == 2


def test_a_batch_that_only_one_node_has_is_refused_for_all():
    batch = PPO.horizon * 2 * 1024  # of one GMI on each GPU of a node
    why = f"no point has {batch} samples per update on .*: there are {3 * batch}"
    with pytest.raises(NoFeasiblePlanError, match=why):
        planned(cluster(), keep_batch=batch)
    assert len(planned(cluster(), keep_batch=3 * batch).layout.nodes) == 3


def test_by_learning_one_node_is_planned_where_more_steps_of_an_update_teach_no_more():
    drowned, loud = (NoiseScale(samples=samples, relative_error=0.1, trained=80_000) for samples in (10.0, 1e9))
    alone, together = (planned(cluster(), noise=noise, objective="learning").layout for noise in (drowned, loud))
    assert len(alone.nodes) == 1 and any(
        reason.startswith("one node is best, dgx: ") and "useful steps/s, all 3 do" in reason
        for reason in alone.reasons
    )
    assert len(together.nodes) == 3 and "x the useful steps/s of one node" in together.reasons[-1]


def test_serving_sends_nothing_so_nodes_add_up():
    plan = planned(cluster(SLOW), template=TCG)
    assert len(plan.layout.nodes) == 3 and not plan.layout.groups
    assert plan.candidates[0].expected == pytest.approx(6 * 2 * 100_000 / 2**0.5)


def test_samples_are_those_of_all_nodes():
    plan = planned(cluster(), keep_batch=3 * 2 * 2 * 1024 * PPO.horizon)
    assert plan.samples_per_update(plan.candidates[0]) == 3 * 2 * 2 * 1024 * PPO.horizon


def test_nodes_of_cores_are_cut_evenly_without_a_profile():
    cores = cluster(node=Node(name="c", cpu=Cpu(cores=4, memory_gib=8)), count=2)
    layout = plan(ANT, cores.whole, num_env=64, template=OverNodes(TCG_EX, cores))
    assert layout.nodes == ("c-0", "c-1") and len(layout.gmis) == 8
    assert layout.groups["trainers"].reduction == "HAR"


def test_larger_nodes_of_cores_get_more_gmis_with_as_many_environments():
    kinds = [Node(name=name, cpu=Cpu(cores=cores, memory_gib=8)) for name, cores in (("small", 2), ("large", 6))]
    unlike = Cluster(network=QUICK, nodes=tuple(Nodes(node=kind) for kind in kinds))
    chosen = planned(unlike)
    layout = chosen.layout
    by_node = {node: [gmi for device in layout.devices_on(node) for gmi in device.gmis] for node in layout.nodes}
    assert len(by_node["large"]) == 3 * len(by_node["small"]) and {gmi.num_env for gmi in layout.gmis} == {1024}
    assert sorted(core for gmi in by_node["large"] for core in gmi.cores) == list(range(6))
    assert [len(ranks) for ranks in layout.ranks_by_device("trainers")] == [2, 6]
    assert chosen.samples_per_update(chosen.candidates[0]) == 8 * 1024 * PPO.horizon


def test_reasons_count_all_nodes_and_gpus():
    told = planned(cluster()).layout.reasons
    assert "12 GMIs on the 6 GPUs of 3 nodes in all" in told
    assert any(reason.startswith("on each of 3 nodes: 4 GMIs on the 2 GPU devices of dgx") for reason in told)


def test_all_gmis_of_a_host_count_as_on_one_device():
    assert by_host([[0, 1], [2], [3], [4, 5]], (2, 2)) == [[0, 1, 2], [3, 4, 5]]
    assert by_host([[0, 1], [2], [3], [4, 5]], (1, 3)) == [[0, 1], [2, 3, 4, 5]]
    assert by_host([[0], [1]], (1, 1)) == [[0], [1]] and by_host([[0, 1]], (2, 2)) == [[0, 1]]
