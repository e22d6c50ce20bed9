"""Supervisors of nodes that a real Ray cluster gets later, or never."""

import threading
from contextlib import ExitStack

import pytest

pytest.importorskip("ray", reason="needs the extra [ray]")

from gmi_drl.launch.ray.supervisors import ray_supervisors
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, Layout
from tests.launch.ray import test_ray_cluster as on_ray
from tests.launch.ray.test_ray_cluster import DEADLINE_S, arguments_of, line, waited_for, waited_until_free

cluster, joined = on_ray.cluster, on_ray.joined


def with_late_nodes():
    """Nodes b and c only have actors, of which one is enough."""
    acts = ("simulator", "agent")
    parts = {
        "a": [GMI(id=0, roles=("trainer",), cores=(0,)), GMI(id=1, roles=acts, num_env=1, cores=(1,))],
        "b": [GMI(id=2, roles=acts, num_env=1, cores=(0, 1))],
        "c": [GMI(id=3, roles=acts, num_env=1, cores=(0, 1))],
    }
    devices = tuple(Device(node=node, kind="cpu", gmis=tuple(gmis)) for node, gmis in parts.items())
    return Layout(devices=devices, channels=Channels(), streams=Streams(fewest_actors=1))


def test_the_supervisor_of_a_node_that_may_join_later_starts_when_the_cluster_has_it(joined, cluster, tmp_path):
    third = []
    with ray_supervisors(with_late_nodes(), arguments_of) as starter, ExitStack() as life:
        started = {name: starter.start(name, line({"facts": str(tmp_path / name)})) for name in ("a", "b", "c")}
        watching = [
            threading.Thread(target=started[name].how_it_ended, daemon=True) for name in ("b", "c")
        ]  # as `process` does
        life.callback(lambda: [cluster.remove_node(node) for node in third])
        for one in watching:
            one.start()
            life.callback(one.join, DEADLINE_S)  # also if this test fails: one that asks Ray when it has ended crashes
        for one in started.values():
            life.callback(one.end)
        for name in ("a", "b"):
            waited_for(tmp_path / name)
        assert not (tmp_path / "c").exists(), "the cluster has two nodes"
        third.append(cluster.add_node(num_cpus=2, num_gpus=0, object_store_memory=80 * 2**20))
        waited_for(tmp_path / "c")
    assert not [one for one in watching if one.is_alive()]
    assert waited_until_free(4) == 4


def test_a_node_that_never_comes_is_not_waited_for_after_the_run(joined, tmp_path):
    with ray_supervisors(with_late_nodes(), arguments_of) as starter:
        late = [starter.start(name, line({"facts": str(tmp_path / name)})) for name in ("b", "c")]
        for one in late:
            one.end()
        assert [one.how_it_ended() for one in late] == [
            f"node {name} was not waited for any longer" for name in ("b", "c")
        ]
