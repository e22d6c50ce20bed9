"""What TensorBoard itself reads back."""

import subprocess
import sys

import pytest
from test_tags import ROW

from gmi_drl.run.folder import RunFolder
from gmi_drl.run.writers.tags import scalars

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra [tensorboard]"
)


def write(folder, iterations):
    from gmi_drl.run.writers.tensorboard import TensorBoard

    writer = TensorBoard(RunFolder(folder))
    for iteration in iterations:
        writer.write(ROW | {"iteration": iteration, "kl": float(iteration)})
    return writer


def read(folder):
    return accumulator.EventAccumulator(str(folder)).Reload()


def test_every_number_comes_back_by_iteration(tmp_path):
    write(tmp_path, [1, 2, 3]).close()
    events = read(tmp_path)
    assert {*events.Tags()["scalars"]} == {*scalars(ROW)}
    assert [(event.step, event.value) for event in events.Scalars("Loss/kl")] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert events.Scalars("Loss/value")[0].value == pytest.approx(0.2)


def test_rows_can_be_read_before_the_end(tmp_path):
    writer = write(tmp_path, [1])
    assert len(read(tmp_path).Scalars("Loss/kl")) == 1
    writer.close()


def test_what_a_run_that_went_back_does_again_is_shown_once(tmp_path):
    write(tmp_path, [1, 2, 3, 4]).close()
    write(tmp_path, [3, 4, 5]).close()
    assert [event.step for event in read(tmp_path).Scalars("Loss/kl")] == [1, 2, 3, 4, 5]


def test_the_launcher_stays_light():
    code = "import gmi_drl.run.writers.tensorboard, sys; sys.exit({'torch', 'tensorflow'} & {*sys.modules} != set())"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
