import time

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.run import writers as package
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import MetricsFile, read_metrics
from gmi_drl.run.writers import Writers

WAIT_S = 60


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


@pytest.fixture
def opened(monkeypatch):
    """Let names stand for these writers."""

    def stand_in(makers):
        monkeypatch.setattr(package, "_open", lambda name, folder: makers[name]())

    return stand_in


class Quick:
    def __init__(self):
        self.rows = []

    def write(self, row):
        self.rows.append(row["iteration"])

    def close(self):
        pass


class Hanging(Quick):
    def close(self):
        time.sleep(10**6)


def broken():
    raise ConnectionError("nobody answers")


def test_one_that_cannot_start_is_dropped_and_the_others_get_all(folder, opened):
    quick, warnings = Quick(), []
    opened({"broken": broken, "quick": lambda: quick})
    with Writers(folder, ("broken", "quick"), warnings.append) as writers:
        writers.start()
        for iteration in (1, 2, 3):
            writers.write({"iteration": iteration})
    assert quick.rows == [1, 2, 3] and len(read_metrics(folder.metrics_file)) == 3
    why = "failed: ConnectionError: nobody answers"
    assert warnings == [f"the writer broken {why}; the run goes on without it"]


@pytest.mark.parametrize("limit", ["LAST_S", "LAST_AFTER_ERROR_S"])
def test_one_that_hangs_at_its_end_is_left_behind(folder, opened, monkeypatch, limit):
    monkeypatch.setattr(package, limit, 0.01)
    warnings = []
    opened({"hanging": Hanging})
    try:
        with Writers(folder, ("hanging",), warnings.append) as writers:
            writers.start()
            writers.write({"iteration": 1})
            if limit == "LAST_AFTER_ERROR_S":
                raise InterruptedError
    except InterruptedError:
        pass
    assert warnings == ["the writer hanging has not finished in time; the run goes on without it"]


def test_a_record_that_cannot_be_written_ends_the_run(folder, monkeypatch):
    def full(*_):
        raise MachineError("the disk is full")

    monkeypatch.setattr(MetricsFile, "write", full)
    with pytest.raises(MachineError, match="full"), Writers(folder, (), print) as writers:
        writers.start()
        writers.write({"iteration": 1})


def test_a_full_disk_is_told_by_its_file_and_the_other_writers_are_closed(folder, opened):
    quick, closed = Quick(), []
    quick.close = lambda: closed.append(True)
    opened({"quick": lambda: quick})
    folder.metrics_file.symlink_to("/dev/full")
    with (
        pytest.raises(MachineError, match=r"metrics\.jsonl cannot be written: No space left"),
        Writers(folder, ("quick",), print) as writers,
    ):
        writers.start()
        writers.write({"iteration": 1})
    assert closed == [True] and quick.rows == []


def test_rows_that_are_not_on_the_disk_when_the_file_closes_end_the_run(folder):
    folder.metrics_file.symlink_to("/dev/full")
    metrics = MetricsFile(folder.metrics_file)
    for call in (lambda: metrics.write({"iteration": 1}), metrics.close):
        with pytest.raises(MachineError, match=r"metrics\.jsonl cannot be written: No space left"):
            call()
