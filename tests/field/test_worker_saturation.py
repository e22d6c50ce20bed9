"""Where services of workers would be full on SRL's cluster: by the committed measurements, and by hand."""

import pytest
from resumable import read
from worker_saturation import CLUSTER, GAMES, NO_WAIT, costs_of, loads_of, split_of, told
from worker_scaling import FILE, HORIZON, NUM_ENV, fitted

from gmi_drl.files import load_yaml
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.scheduler.worker_rates import Services

PONG, *_ = GAMES
COSTS = Services(request_s=1e-5, far_request_s=1e-5, rollout_s=1e-3, version_s=1e-3, beat_s=1e-4)


def test_the_file_is_what_is_computed_from_the_measurements():
    lines = told(costs_of(read(FILE), fitted), NUM_ENV, HORIZON)
    assert FILE.with_name("saturation.txt").read_text().splitlines() == list(lines)


def test_a_core_steps_as_fast_as_in_the_paper():
    assert [round(1 / game.step_s) for game in GAMES] == [391, 103, 27, 25]


def test_services_are_full_with_as_many_actors_as_by_hand():
    split = split_of(PONG, 4, 32, load_yaml(Cluster, CLUSTER))
    actors = 64 * 179 + 4 * 120
    assert split.actors == actors and split.trainers == 32
    assert split.asked == pytest.approx(actors / PONG.step_s)
    found = {load.service: load for load in loads_of(split, COSTS, NO_WAIT)}
    assert next(iter(found)) == max(found, key=lambda service: found[service].part)
    gmis = actors + 64 + 32
    assert found["the launcher"].part == pytest.approx(gmis * 1e-4)
    assert found["the launcher"].saturated == pytest.approx(actors / gmis * 1e4)
    requests = (179 + 480 / 64) / PONG.step_s / 2  # of two environments each
    assert found["the policy workers' requests"].part == pytest.approx(requests * 1e-5)
    rollouts = 179 / PONG.step_s / (4 * 32)
    assert found["the proxies of a machine of actors"].part == pytest.approx(rollouts * 1e-3)
    updates = 1 / PONG.step_s / (4 * 32)
    assert found["versions to other machines"].part == pytest.approx(updates * 64 * 1e-3, rel=1e-3)
    assert found["the link of a machine (a100-x8)"].part < 1e-6


def test_a_version_costs_all_that_its_proxy_did_at_most():
    light = [{"kind": "light", "count": count, "cpu_us": cpu_us} for count, cpu_us in ((10, 40.0), (1000, 50.0))]
    runs = [
        {
            **{"kind": "actors", "count": count, "seconds": 10.0, "rollouts": 50 * count, "updates": 10},
            "cpu_s": {"launcher": 1.0 + 0.1 * count, "proxy_main": 0.2 * count},
        }
        for count in (1, 2)
    ]
    costs = costs_of([*light, *runs], fitted)
    assert (costs.request_s, costs.far_request_s) == (5e-5, 5e-5), "with the most clients"
    assert costs.version_s == pytest.approx(0.02) and costs.beat_s == pytest.approx(0.01)
