import json
from contextlib import closing

import pytest

from gmi_drl.errors import GmiWarning
from gmi_drl.run.metrics import MetricsFile, drop_rows_after, last_row, read_metrics


def test_rows_come_back_and_nan_becomes_null(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with closing(MetricsFile(path)) as metrics:
        metrics.write({"iteration": 1, "kl": float("nan"), "gmis": {"0": {"sim_s": float("inf")}}})
    assert read_metrics(path) == [{"iteration": 1, "kl": None, "gmis": {"0": {"sim_s": None}}}]
    json.loads(path.read_text())


def test_going_back_forgets_later_rows_and_torn_lines(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with closing(MetricsFile(path)) as metrics:
        for iteration in range(1, 6):
            metrics.write({"iteration": iteration})
    with path.open("ab") as file:
        file.write(b"\xff is no UTF-8\n")
    with path.open("a") as file:
        file.write("[" * 100_000 + "\n")  # nested too deep to be read
        file.write('{"iteration": 6, "kl"')
    assert last_row(path) == {"iteration": 5}
    beside = tmp_path / "dropped.jsonl"
    assert drop_rows_after(path, 3, beside) == read_metrics(beside) == [{"iteration": 4}, {"iteration": 5}]
    with closing(MetricsFile(path)) as metrics:
        metrics.write({"iteration": 4})
    assert [row["iteration"] for row in read_metrics(path)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "line",
    [
        '{"iteration": null}',
        '{"iteration": "4"}',
        '{"iteration": true}',
        '{"env_steps": 64}',
        '{"iteration": 4, "env_steps": "many"}',
        '{"iteration": 4, "return_mean": [1]}',
        '{"iteration": 4, "eval_return_mean": "x"}',
        '{"iteration": 4, "steps_per_second": NaN}',
        f'{{"iteration": 4, "env_steps": {"9" * 400}}}',
        '{"iteration": 4, "eval_s": "long"}',
        '{"iteration": 4, "sim_s": {}}',
        '{"iteration": 4, "gmis": [1]}',
        '{"iteration": 4, "gmis": {"0": 1}}',
        '{"iteration": 4, "gmis": {"0": {"sim_s": null}, "1": {"sim_s": "1"}}}',
    ],
)
def test_what_is_no_row_is_left_out_by_all_who_read(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"iteration": 1}}\n{line}\n4\n')
    wrong = list(json.loads(line))[-1] if "iteration" in line else "iteration"
    said = rf"metrics\.jsonl, line 2: {wrong}(\.\d)? is not what a run writes there: this row is left out"
    assert last_row(path) == {"iteration": 1}
    with pytest.warns(GmiWarning, match=said):
        assert read_metrics(path) == [{"iteration": 1}]
    with pytest.warns(GmiWarning, match=said):
        drop_rows_after(path, 2, tmp_path / "dropped.jsonl")
    assert path.read_text() == '{"iteration": 1}\n'


def test_rows_that_are_dropped_again_are_all_kept(tmp_path):
    path, beside = tmp_path / "metrics.jsonl", tmp_path / "dropped.jsonl"
    for number in (1, 2):
        path.write_text(f'{{"iteration": 1, "try": {number}}}\n')
        drop_rows_after(path, 0, beside)
    assert [row["try"] for row in read_metrics(beside)] == [1, 2] and read_metrics(path) == []


def test_no_file_is_no_rows(tmp_path):
    assert read_metrics(tmp_path / "none") == [] and last_row(tmp_path / "none") == {}
    assert drop_rows_after(tmp_path / "new", 0, tmp_path / "beside") == [] and not (tmp_path / "beside").exists()
    assert read_metrics(tmp_path / "new") == []
