"""What serving more actors costs: light clients of a server, processes by kind, and what is fitted."""

import worker_scaling
from worker_near import measure_near
from worker_scaling import LINE, fitted, in_words, measure_light, near_costs

from gmi_drl.comm.streams import slot_link, slots


def test_light_clients_say_what_those_of_the_package_say():
    assert (worker_scaling.READY, worker_scaling.HALF) == (slot_link.READY, slot_link.HALF)
    assert worker_scaling.WITHIN == slot_link.WITHIN and worker_scaling.HEAD.format == slot_link._HEAD.format
    words = (slots.POSTED, slots.WHAT, slots.VERSION, slots.POSTED_NS, slots.PROCESSES, slots.HAS_LEFT)
    assert words == tuple(range(6)) and LINE.size == slots.LINE_WORDS * 8


def test_light_clients_are_answered():
    run = measure_light(6, 0.2)
    assert run["per_second"] > 0 and 1 <= run["rows"] <= 6 and run["cpu_us"] > 0
    assert "6 light clients" in in_words(run)


def test_a_near_sample_and_a_near_pull_cost_something():
    run = measure_near(0.05, horizon=4, num_env=2, hang_s=20.0)
    assert run["kind"] == "near" and run["rollout_bytes"] > 4 * 2 * 115 * 4 and run["version_bytes"] > 4 * 64 * 115
    assert near_costs([run]) == {"near_sample_s": run["sample_us"] / 1e6, "near_pull_s": run["pull_us"] / 1e6}
    assert min(near_costs([run]).values()) > 0 and "CPU us a sample of" in in_words(run)
    assert near_costs([]) == fitted([run]) == {}


def test_costs_are_slopes():
    light = {"kind": "light", "count": 1, "per_second": 10.0, "rows": 1.0, "cpu_us": 50.0, "kib_each": 8.0}
    runs = [
        {
            **{"kind": "actors", "count": count, "seconds": 10.0, "steps": 100 * count, "rollouts": 5 * count},
            "cpu_s": {"launcher": 1.0 + 0.1 * count, "proxy_main": 2.0 + 0.05 * count},
        }
        for count in (1, 2, 4)
    ]
    costs = fitted([light, *runs])
    assert {name: round(cost, 9) for name, cost in costs.items()} == {
        "far_request_s": 5e-5,
        "rollout_s": 0.01,
        "beat_s": 0.01,
    }
    assert "CPU ms in a second: launcher 110.0, proxy_main 205.0" in in_words(runs[0])
