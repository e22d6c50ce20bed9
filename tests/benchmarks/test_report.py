from contextlib import contextmanager

import pytest

from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.report import STALE, detail_medians, limits, load_results, overview, section
from gmi_drl.benchmarks.result import write_result
from gmi_drl.benchmarks.runner import run_case
from gmi_drl.errors import UsageError
from tests.benchmarks.toy import toy_case


def test_a_page_has_measurements_machines_and_limits(tmp_path):
    (tmp_path / "toy.png").touch()
    good = run_case(toy_case(reference="the paper: 1.9x", limits="Only a toy."), repeats=3)
    bad = run_case(toy_case(name="slow", lower_is_better=True, limits="Only a toy."), repeats=3)
    alone = run_case(toy_case({"ours": (5.0,)}, name="alone"), repeats=1)
    results = {"toy": good, "slow": bad, "alone": alone, "alone_elsewhere": alone}
    table, sections = overview(results), [section(name, one, tmp_path) for name, one in results.items()]
    when = f"{good.machine.date[:10]}, {good.machine.commit}"
    row = f"| [toy](#toy) | 3 steps/s | theirs, 1 steps/s | 2.00x (range 1.50-4.00) | the paper: 1.9x | {when} |"
    assert row in table and f"| [alone](#alone) | 5 steps/s | - | - | - | {when} |" in table
    assert "| [alone_elsewhere](#alone_elsewhere) | 5 steps/s" in table and "## alone_elsewhere\n" in sections[3]
    assert "gmi-drl bench toy --repeats 3" in sections[0] and good.machine.described in sections[0]
    assert "A toy | for tests." in sections[0] and "![toy](toy.png)" in sections[0] and "![" not in sections[1]
    text = limits(results)
    assert "- slow: 0.50x (range 0.25-0.67)" in text and "toy: 2.00x" not in text
    assert "- toy, slow: Only a toy." in text


def test_results_that_are_stale_are_marked(tmp_path):
    result = run_case(toy_case(), repeats=3)
    table = overview({"toy": result, "toy_elsewhere": result}, {"toy"})
    assert "| [toy](#toy), stale | 3 steps/s" in table and "| [toy_elsewhere](#toy_elsewhere) | 3 steps/s" in table
    assert f"**{STALE}**" in section("toy", result, tmp_path, is_stale=True)
    assert STALE not in section("toy", result, tmp_path)


def test_a_result_without_a_case_is_refused(tmp_path):
    write_result(run_case(toy_case(), repeats=1), tmp_path / "toy.json")
    with pytest.raises(UsageError, match="has results of cases that do not exist: toy"):
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


def test_a_detail_that_some_samples_do_not_have_is_shown_with_how_many_do():
    result = run_case(toy_case(), repeats=3)

    def shown(*values):
        details = [{"bends_at": value} for value in values]
        column = tuple(
            sample.model_copy(update={"details": each})
            for sample, each in zip(result.samples["ours"], details, strict=True)
        )
        return detail_medians(result.model_copy(update={"samples": {"ours": column}}), "ours")

    assert shown(512, None, 512) == {"bends_at": "512 in 2 of 3"}
    assert shown(None, None, None) == {"bends_at": "none"}
    assert shown(512, 1024, 512) == {"bends_at": "512"} and shown(512, "text", None) == {}


def test_a_baseline_and_activity_have_their_columns(tmp_path):
    result = run_case(toy_case(is_baseline_first=True), repeats=3)
    samples = {
        side: tuple(sample.model_copy(update={"details": {"sm_util": used}}) for sample in column)
        for (side, column), used in zip(result.samples.items(), (80.0, 50.0), strict=True)
    }
    shown = result.model_copy(update={"samples": samples})
    assert "| [toy](#toy) | theirs, 1 steps/s | ours, 3 steps/s | 0.50x (range 0.25-0.67) | - |" in overview(
        {"toy": shown}
    )
    page = section("toy", shown, tmp_path)
    assert "| side | median | range | its ratio to ours | SM activity gained | also |" in page
    assert (
        "| theirs | 1 steps/s | 1 steps/s to 2 steps/s | 0.50x (range 0.25-0.67) | -30.0 points | sm_util 50 |" in page
    )
