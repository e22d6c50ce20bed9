import pytest

from gmi_drl.benchmarks.cases.components import ppo_update
from gmi_drl.benchmarks.runner import run_case


@pytest.mark.parametrize("case", ppo_update.CASES, ids=lambda case: case.name)
def test_all_sides_are_measured(case, monkeypatch):
    if case.obstacle() is not None:
        pytest.skip(case.obstacle())
    monkeypatch.setattr(ppo_update, "NUM_ENV", 8)
    result = run_case(case, repeats=1, quick=True)
    assert [*result.samples] == ["gmi-drl", *(["float32"] if "bf16" in case.name else []), "rsl_rl"]
    assert all(spread.least > 0 for spread in result.summaries.values())


def test_ours_multiplies_in_bfloat16_where_the_case_says_so(monkeypatch):
    pytest.importorskip("rsl_rl")
    made = []
    monkeypatch.setattr("gmi_drl.algo.ppo.PPO.update", lambda ppo, *_: made.append(ppo.policy.bf16))
    monkeypatch.setattr(ppo_update, "NUM_ENV", 8)
    for bf16, expected in ((False, {"gmi-drl": False}), (True, {"gmi-drl": True, "float32": False})):
        with ppo_update.open_sides(True, bf16=bf16) as sides:
            for name, is_bf16 in expected.items():
                sides[name]()
                assert made[-1] is is_bf16
