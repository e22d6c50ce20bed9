from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.toy import toy_case

from gmi_drl.bench.case import Sample
from gmi_drl.bench.report import detail_medians, load_results, report
from gmi_drl.bench.result import write_result
from gmi_drl.bench.runner import run_case
from gmi_drl.errors import UsageError

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def test_the_committed_page_is_what_the_results_give():
    results = load_results(RESULTS)
    page = (ROOT / "benchmarks" / "README.md").read_text()
    assert page == report(results, RESULTS), "benchmarks/README.md is not of these results: run `make report`"


def test_a_page_says_what_was_measured_where_and_what_does_not_help(tmp_path):
    (tmp_path / "toy.png").touch()
    good = run_case(toy_case(reference="the paper: 1.9x", limits="Only a toy."), repeats=3)
    bad = run_case(toy_case(name="slow", lower_is_better=True, limits="Only a toy."), repeats=3)
    alone = run_case(toy_case({"ours": (5.0,)}, name="alone"), repeats=1)
    page = report({"toy": good, "slow": bad, "alone": alone, "alone_elsewhere": alone}, tmp_path)
    assert "| [toy](#toy) | 3 steps/s | theirs, 1 steps/s | 2.00x (1.50-4.00) | the paper: 1.9x |" in page
    assert "| [alone](#alone) | 5 steps/s | - | - | - |" in page
    assert "| [alone_elsewhere](#alone_elsewhere) | 5 steps/s" in page and "\n## alone_elsewhere\n" in page
    assert "gmi-drl bench toy --repeats 3" in page and good.machine.described in page and "A toy | for tests." in page
    assert "![toy](results/toy.png)" in page and "![slow]" not in page
    _, limits = page.split("## Where gmi-drl does not help")
    assert "- slow: 0.50x" in limits and "- toy, slow: Only a toy." in limits and "toy: 2.00x" not in limits


def test_a_result_without_a_case_is_refused(tmp_path):
    write_result(run_case(toy_case(), repeats=1), tmp_path / "toy.json")
    with pytest.raises(UsageError, match="no case for the results toy"):
        load_results(tmp_path)


def test_of_settings_all_values_are_shown():
    values = iter((512, 4096, 512))

    @contextmanager
    def open_sides(quick):
        yield {"ours": lambda: Sample(1.0, {"num_env": next(values), "copy_s": 0.002})}

    result = run_case(toy_case(open=open_sides, compared=False), repeats=3)
    assert detail_medians(result, "ours") == {"num_env": "512 or 4096", "copy_s": "2.0 ms"}


def test_details_that_are_numbers_are_shown_with_their_unit():
    assert detail_medians(run_case(toy_case(), repeats=2), "ours") == {"copy_s": "2.0 ms"}
