from types import SimpleNamespace

import pytest

from gmi_drl.roles.launcher.protocol import Start, Stop
from gmi_drl.roles.seeds import SEEDS, serving_seed
from gmi_drl.roles.serving.server import Server


@pytest.mark.parametrize(("messages", "may"), [([Start()], True), ([Stop()], False), ([Start(), Stop()], False)])
def test_a_stop_that_comes_with_the_start_is_obeyed(messages, may):
    waits = iter([[], messages])
    server = object.__new__(Server)
    server.mgr = SimpleNamespace(launcher=SimpleNamespace(await_messages=lambda wait_s: next(waits)))
    assert server._may_start() is may


def test_gmis_that_simulate_are_numbered_whatever_their_ids():
    """A policy worker with the id 0 simulates nothing."""
    server = object.__new__(Server)
    with_role = {"simulator": (SimpleNamespace(id=1), SimpleNamespace(id=2))}.get
    server.GMI_id, server.mgr = 2, SimpleNamespace(layout=SimpleNamespace(with_role=with_role))
    assert server.number == 1


def test_no_environment_of_a_gmi_has_the_seed_of_one_of_another_gmi():
    """Adapters give environment i of a GMI its seed + i."""
    seeds = [{serving_seed(7, gmi) + env for env in range(4096)} for gmi in range(8)]
    assert serving_seed(7, 0) == 7 and len(set.union(*seeds)) == 8 * 4096
    assert 0 <= serving_seed(SEEDS - 1, 5000) < SEEDS
