import pytest

from gmi_drl.launch.served import Served, ServedGMI
from gmi_drl.roles.serving.latency import Latencies


def served(started_s, ended_s, node=None):
    """A GMI that did 100 steps of 2 environments."""
    sums = dict.fromkeys(("sim_s", "act_s", "sync_s", "return_sum", "length_sum"), 0.0)
    counts = {"num_env": 2, "steps": 100, "episodes": 0, "bad": 0}
    return ServedGMI(started_s=started_s, ended_s=ended_s, latencies=Latencies(), node=node, **counts, **sums)


def test_steps_per_second_are_from_the_first_start_to_the_last_end():
    gmis = {0: served(10.0, 14.0), 1: served(11.0, 15.0)}
    assert Served(gmis, 1, None, {}).steps_per_second == pytest.approx(400 / 5)
    assert gmis[1].steps_per_second == pytest.approx(50)


def test_clocks_of_two_machines_are_not_compared():
    gmis = {0: served(10.0, 14.0, "a"), 1: served(86_400.0, 86_402.0, "b"), 2: served(86_401.0, 86_405.0, "b")}
    assert Served(gmis, 1, None, {}).steps_per_second == pytest.approx(600 / 5)
