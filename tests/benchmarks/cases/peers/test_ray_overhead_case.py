import pytest
from conftest import two_cores

from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.peers import ray_overhead as case

pytest.importorskip("ray", reason="needs the extra [ray]")


@two_cores
def test_both_sides_train_and_only_one_has_processes_of_ray(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # nobody's: the case has a cluster of its own
    monkeypatch.setattr(case, "NUM_ENV", 8)
    monkeypatch.setattr(case, "WARM_UP_S", 0.0)
    with find_case("ray_overhead").open(True) as sides:
        ray, local = (sides[f"--launcher {name}"]() for name in ("ray", "local"))
    assert ray.value > 0 and local.value > 0
    assert ray.details["cpu_of_ray_s"] > 0 and local.details["cpu_of_ray_s"] == 0
    assert min(ray.details["cluster_and_agent_s"], local.details["cluster_and_agent_s"]) > 0
