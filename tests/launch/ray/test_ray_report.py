"""What nodes of a cluster report, without one: each task is run at once, here."""

import sys
from types import ModuleType, SimpleNamespace

from gmi_drl.launch.ray import report as reports
from gmi_drl.launch.ray.cluster import RayNode

MANY = 150
"""More than wait for a socket that says nothing of how many may."""


def fake_ray():
    """What a report needs of Ray."""
    ray, strategies = ModuleType("ray"), ModuleType("ray.util.scheduling_strategies")
    ray.remote = lambda look: SimpleNamespace(options=lambda **_: SimpleNamespace(remote=look))
    ray.wait, ray.get = (lambda *_, **__: None), (lambda task, timeout: task)
    ray.util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
    ray.exceptions = SimpleNamespace(RayError=RuntimeError)
    strategies.NodeAffinitySchedulingStrategy = lambda *_, **__: None
    return {"ray": ray, "ray.util": ModuleType("ray.util"), "ray.util.scheduling_strategies": strategies}


def test_each_of_many_nodes_reaches_this_one(monkeypatch):
    for name, module in fake_ray().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(reports, "REACH_S", 0.2)
    nodes = [RayNode(f"{number:06x}", f"n{number}", "127.0.0.1", cpus=1, gpus=0) for number in range(MANY)]
    assert all(one.reaches for one in reports.report(nodes))
