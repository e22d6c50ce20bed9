import subprocess
import sys
from threading import Event

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.run.writers.background import Background

LONG_S = 60


class Kept:
    """Keeps what it is given."""

    def __init__(self):
        self.rows, self.is_closed = [], False

    def write(self, row):
        self.rows.append(row)

    def close(self):
        self.is_closed = True


def finished(background):
    background.end()
    background.join(LONG_S)
    return background.failure


def test_rows_come_in_order_and_then_the_end():
    kept = Kept()
    background = Background("kept", lambda: kept)
    for iteration in range(5):
        background.write({"iteration": iteration})
    assert finished(background) is None
    assert [row["iteration"] for row in kept.rows] == list(range(5)) and kept.is_closed


@pytest.mark.parametrize("method", ["write", "close"])
def test_any_error_of_a_writer_is_its_failure(monkeypatch, method):
    def fail(*_):
        raise ConnectionError("no way to the service")

    kept = Kept()
    monkeypatch.setattr(kept, method, fail)
    background = Background("kept", lambda: kept)
    background.write({"iteration": 1})
    assert finished(background) == "failed: ConnectionError: no way to the service"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MachineError("it is not installed"), "failed: it is not installed"),
        (SystemExit(3), "failed: SystemExit: 3"),
    ],
)
def test_a_writer_that_cannot_start_has_failed(error, told):
    def fail():
        raise error

    assert finished(Background("broken", fail)) == told


def test_one_that_hangs_holds_nobody_up():
    let_go = Event()

    class Hanging(Kept):
        def close(self):
            let_go.wait(LONG_S)

    background = Background("hanging", Hanging)
    background.end()
    background.join(0.01)
    assert background.failure == "has not finished in time"
    let_go.set()
    background.join(LONG_S)


def test_no_writer_keeps_the_program_from_ending():
    code = (
        "import time; from gmi_drl.run.writers.background import Background\n"
        "Background('hanging', lambda: time.sleep(10**6)).join(0.01)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=LONG_S).returncode == 0
