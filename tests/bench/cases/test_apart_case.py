import os

import pytest
from conftest import children_of, two_cores

from gmi_drl.bench.cases import apart, find_case
from gmi_drl.bench.runner import run_case
from gmi_drl.phases import PHASE_NAMES
from gmi_drl.templates import template_of

pytestmark = two_cores


@pytest.mark.parametrize("layouts", [apart.training_layouts, apart.serving_layouts])
def test_all_sides_have_the_same_environments_on_the_same_two_cores(layouts):
    made = layouts()
    assert all(template_of(layout).check(layout) == [] for layout in made.values())
    assert {layout.num_env for layout in made.values()} == {apart.TOTAL}
    assert len({frozenset(core for gmi in layout.gmis for core in gmi.cores) for layout in made.values()}) == 1
    assert [name.split(",")[0] for name in made] == [layout.template for layout in made.values()]


def test_what_comes_before_the_warm_up_is_over_is_not_timed(monkeypatch, tmp_path):
    speeds = (1.0, 1.0, 30.0, 60.0)
    rows = [{"steps_per_second": speed, **dict.fromkeys(PHASE_NAMES, speed)} for speed in speeds]
    monkeypatch.setattr(apart.learning, "train", lambda *training: rows)
    (layout, *_) = apart.training_layouts().values()
    sample = apart.train(layout, apart.configured(4), tmp_path)
    assert sample.value == pytest.approx(40.0), "a third of the time goes at 60 steps/s, two thirds at 30"
    assert sample.details["sim_s"] == 45.0


@pytest.mark.parametrize("name", ["tcg_against_tdg", "tcg_ex_against_tdg_ex"])
def test_every_side_runs_and_only_where_roles_are_apart_borders_cost(monkeypatch, name):
    monkeypatch.setattr(apart, "TOTAL", 16)
    monkeypatch.setattr(apart, "QUICK_ITERATIONS", 3)
    result = run_case(find_case(name), repeats=1, quick=True)
    samples = {side: one[0] for side, one in result.samples.items()}
    assert all(one.value > 0 and one.details["num_env"] == 16 for one in samples.values())
    assert [one.details["gmis"] for one in samples.values()] == ([2, 2, 3] if name == "tcg_against_tdg" else [2, 3, 4])
    assert all(one.details[phase] > 0 for one in samples.values() for phase in ("sim_s", "act_s"))
    together, *others = (one.details["sync_s"] for one in samples.values())
    assert all(waited > 0 for waited in others) and (together == 0 or name == "tcg_ex_against_tdg_ex")
    assert not children_of(os.getpid())
