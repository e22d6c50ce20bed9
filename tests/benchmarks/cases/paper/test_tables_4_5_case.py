import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.paper import tables_4_5
from gmi_drl.benchmarks.cases.paper.paper_model import Model
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.run.phases import PHASE_NAMES
from gmi_drl.templates import template_of

pytestmark = two_cores


@pytest.mark.parametrize("layouts", [tables_4_5.training_layouts, tables_4_5.serving_layouts])
def test_all_sides_have_the_same_environments_on_the_same_two_cores(layouts):
    made = layouts()
    assert all(template_of(layout).check(layout) == [] for layout in made.values())
    assert {layout.num_env for layout in made.values()} == {tables_4_5.TOTAL}
    assert len({frozenset(core for gmi in layout.gmis for core in gmi.cores) for layout in made.values()}) == 1
    assert [name.split(",")[0] for name in made] == [layout.template for layout in made.values()]


def test_what_comes_before_the_warm_up_is_over_is_not_timed(monkeypatch, tmp_path):
    speeds = (1.0, 1.0, 30.0, 60.0)
    rows = [{"steps_per_second": speed, **dict.fromkeys(PHASE_NAMES, speed)} for speed in speeds]
    monkeypatch.setattr(tables_4_5.learning, "train", lambda *training: rows)
    (layout, *_) = tables_4_5.training_layouts().values()
    sample = tables_4_5.train(layout, tables_4_5.configured(4), tmp_path)
    assert sample.value == pytest.approx(40.0), "a third of the time goes at 60 steps/s, two thirds at 30"
    assert sample.details["sim_s"] == 45.0


@pytest.mark.parametrize("name", ["tcg_against_tdg", "tcg_ex_against_tdg_ex"])
def test_every_side_runs_and_only_where_roles_are_apart_borders_cost(monkeypatch, name):
    monkeypatch.setattr(tables_4_5, "TOTAL", 16)
    monkeypatch.setattr(tables_4_5, "QUICK_ITERATIONS", 3)
    result = run_case(find_case(name), repeats=1, quick=True)
    samples = {side: one[0] for side, one in result.samples.items()}
    assert all(one.value > 0 and one.details["num_env"] == 16 for one in samples.values())
    assert [one.details["gmis"] for one in samples.values()] == ([2, 2, 3] if name == "tcg_against_tdg" else [2, 3, 4])
    assert all(one.details[phase] > 0 for one in samples.values() for phase in ("sim_s", "act_s"))
    together, *others = (one.details["sync_s"] for one in samples.values())
    assert all(waited > 0 for waited in others) and (together == 0 or name == "tcg_ex_against_tdg_ex")
    for one in samples.values():
        for way in "paper", "held":
            assert one.details[f"{way}_error"] == pytest.approx(one.details[f"{way}_foretells"] / one.value - 1)
    assert not children_of(os.getpid())


def test_the_model_predicts_from_times_of_colocated_roles():
    """2 x 50 environments: a second of simulating and half a second of acting each, and messages of 0.05 s."""
    together = Sample(0.0, {"sim_s": 1.0, "act_s": 0.5, "learn_s": 0.5})
    serving = Model(num_obs=3, num_actions=2, total=100, m=10, bandwidth=1000 * 36 / 0.05)  # 4 (2 x 3 + 2 + 1) bytes
    speeds = [serving.predict(together, simulators) for simulators in (0, 1, 2)]
    assert [predicted["held_foretells"] for predicted in speeds] == pytest.approx(
        [1000 / 1.5, 1000 / 3.05, 1000 / 2.05]
    )
    of_half = 2 * 500 / (1.5 + 0.025)
    assert speeds[1]["paper_foretells"] == pytest.approx(of_half), "R is 1 core: the other has nothing to do meanwhile"
    assert speeds[2]["paper_foretells"] == pytest.approx(of_half * 1.5 / 1.25), "alpha is a half"
    training = Model(num_obs=3, num_actions=2, total=100, m=10, bandwidth=24e9, M_p=8, sums=4)
    held = [training.predict(together, simulators)["held_foretells"] for simulators in (0, 1, 2)]
    assert held == pytest.approx([1000 / 2, 1000 / 4, 1000 / 3], rel=1e-4)
