import os

from conftest import children_of, two_cores

from gmi_drl.benchmarks.cases.sharing import resizing
from gmi_drl.benchmarks.runner import run_case


@two_cores
def test_a_run_goes_on_with_other_gmis_and_the_pause_is_told(monkeypatch):
    layouts, train = [], resizing._train

    def watched(layout, config, folder, checkpoint=None):
        rows, saved = train(layout, config, folder, checkpoint)
        layouts.append((len(layout.gmis), layout.num_env, [row["iteration"] for _, row in rows]))
        return rows, saved

    monkeypatch.setattr(resizing, "NUM_ENV", 4)
    monkeypatch.setattr(resizing, "_train", watched)
    (sample,) = run_case(resizing.CASES[0], repeats=1, quick=True).samples["1 GMI, then 2"]
    assert layouts == [(1, 4, [1, 2, 3, 4]), (2, 4, [5, 6, 7, 8])] and not children_of(os.getpid())
    before, after = (sample.details[f"steps_per_second_{when}"] for when in ("before", "after"))
    assert sample.value > 0 and before > 0 and after > 0
    assert ("made_up_after_s" in sample.details) == (after > before)
