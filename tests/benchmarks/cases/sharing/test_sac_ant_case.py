import os

from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.sharing import sac_ant
from gmi_drl.benchmarks.runner import run_case


def test_all_sides_have_as_many_environments_and_the_same_batch():
    layouts, config = sac_ant.layouts(), sac_ant.config()
    assert {layout.num_env for layout in layouts.values()} == {sac_ant.NUM_ENV}
    assert [gmi.cores for gmi in layouts[sac_ant.OURS].gmis] == [(0,), (1,)]
    assert [layouts[name].gmis[0].torch_threads for name in (sac_ant.ONE, sac_ant.ONE_THREAD)] == [2, 1]
    assert config.learner.kind == "sac" and config.learner.updates == config.learner.horizon


@two_cores
def test_two_gmis_learn_from_their_own_rings(monkeypatch):
    monkeypatch.setattr(sac_ant, "NUM_ENV", 4)
    two = {sac_ant.OURS: sac_ant.layouts()[sac_ant.OURS]}
    monkeypatch.setattr(sac_ant, "layouts", lambda: two)
    monkeypatch.setattr(sac_ant, "QUICK_SECONDS", 0.05)
    result = run_case(sac_ant.CASES[0], repeats=1, quick=True)
    details = result.samples[sac_ant.OURS][0].details
    assert details["gmis"] == 2 and details["num_env"] == 2 and details["learn_s"] > 0 and not children_of(os.getpid())
