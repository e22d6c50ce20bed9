import csv

from test_tags import ROW

from gmi_drl.run.folder import RunFolder
from gmi_drl.run.writers.csv import Csv
from gmi_drl.run.writers.tags import scalars


def read(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_row_is_there_at_once_by_the_tags_of_tensorboard(tmp_path):
    writer = Csv(RunFolder(tmp_path))
    for iteration in (1, 2):
        writer.write(ROW | {"iteration": iteration, "kl": float(iteration)})
        assert len(read(tmp_path)) == iteration
    last = read(tmp_path)[-1]
    assert list(last) == ["iteration", *scalars(ROW)] and (last["iteration"], last["Loss/kl"]) == ("2", "2.0")


def test_a_number_that_comes_later_gets_a_column(tmp_path):
    writer = Csv(RunFolder(tmp_path))
    writer.write(ROW | {"iteration": 1})
    writer.write(ROW | {"iteration": 2, "eval_return_mean": 5.0})
    writer.write(ROW | {"iteration": 3})
    assert [row["Eval/mean_reward"] for row in read(tmp_path)] == ["", "5.0", ""]


def test_a_resumed_run_drops_the_rows_that_it_repeats(tmp_path):
    for first, last in ((1, 5), (3, 4)):
        writer = Csv(RunFolder(tmp_path))
        for iteration in range(first, last + 1):
            writer.write(ROW | {"iteration": iteration, "kl": float(first)})
        writer.close()
    assert [(row["iteration"], row["Loss/kl"]) for row in read(tmp_path)] == [
        ("1", "1.0"),
        ("2", "1.0"),
        ("3", "3.0"),
        ("4", "3.0"),
    ]


def test_a_last_line_that_a_crash_cut_short_is_dropped(tmp_path):
    (tmp_path / "metrics.csv").write_text("iteration,Loss/kl\n1,0.5\nx")
    Csv(RunFolder(tmp_path)).write(ROW | {"iteration": 2})
    assert [row["iteration"] for row in read(tmp_path)] == ["1", "2"]
