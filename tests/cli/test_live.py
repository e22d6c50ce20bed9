import os
import pty
import re
import subprocess
import sys
import time

import pytest
from conftest import tiny_config, tiny_layout
from rich.console import Console

from gmi_drl.cli.live import CHROME_LINES, TrainingView, gmi_table, plain_line, usage_text
from gmi_drl.run.folder import RunFolder

ROW = {
    "iteration": 5,
    "env_steps": 123456,
    "steps_per_second": 23456.0,
    "return_mean": None,
    "episode_length_mean": 12.0,
    "bad_environments": 0.0,
    "gmis": {str(i): {"sim_s": 0.1, "act_s": 0.01, "learn_s": 0.2, "sync_s": 0.1 * i} for i in range(2)},
}


def test_a_line_of_text():
    assert plain_line(ROW, 10) == "iteration 5/10  steps 123.5k  23.5k steps/s  return -  length 12.0"
    assert plain_line(ROW | {"bad_environments": 3.0}, 10).endswith("length 12.0  bad environments 3")


def test_how_busy_a_gpu_was_is_named_for_what_it_is():
    assert usage_text({"sm_util": 41.4, "power_w": 310.2}) == "41 % of SMs active  310 W"
    assert usage_text({"gpu_busy": 97.0}) == "a kernel ran 97 % of the time" and usage_text({}) == ""


def test_the_table_has_a_line_for_each_gpu(tmp_path):
    view = TrainingView(tiny_layout(), tiny_config(), RunFolder(tmp_path), quiet=True)
    row = ROW | {"learning_rate": 1e-3, "devices": {"gpu0": {"sm_util": 41.0}, "gpu1": {"sm_util": 12.0}}}
    with view.console.capture() as seen:
        view.console.print(view._table(row))
    assert "gpu0  41 % of SMs active" in seen.get() and "gpu1  12 % of SMs active" in seen.get()


@pytest.mark.parametrize("count", [8, 16, 64])
def test_no_row_is_wrapped_and_no_digit_is_cut_in_80_columns(tmp_path, count):
    view = TrainingView(
        tiny_layout(count), tiny_config(iterations=10**6, time_limit_s=9e5), RunFolder(tmp_path), quiet=True
    )
    view.started, view.console = time.monotonic() - 8e5, Console(width=80, height=24)
    usage = {"sm_util": 100.0, "sm_occupancy": 100.0, "dram_bandwidth": 100.0, "power_w": 700.0}
    phases = {"sim_s": 1234.567, "act_s": 123.456, "learn_s": 2345.678, "sync_s": 345.678}
    row = ROW | {"iteration": 123456, "return_mean": -123456.7, "learning_rate": 1e-5, "bad_environments": 123456.0}
    row |= {"lag_mean": 12.3, "lag_max": 45.0, "predictions_per_second": 1.23e6, "devices": {"gpu0": usage}}
    row |= {"gmis": {str(i): phases for i in range(count)}} | phases
    with view.console.capture() as seen:
        view.console.print(view._table(row))
    lines = seen.get().splitlines()
    assert len(lines) == 6 + 1 + 1 + min(count, 24 - CHROME_LINES - 2) + 1, "one line each"
    assert "123456 of 1000000" in lines[0] and lines[0].rstrip().endswith("of 250 h 0 min")
    assert lines[4].startswith("time left") and "KL" in lines[4] and lines[-1].startswith("58% is learning")
    assert lines[5].rstrip().endswith("12.3 versions, 45 at most") and lines[6].rstrip().endswith("700 W")
    assert all(re.search(r" 1234567 ms +123456 ms +2345678 ms +345678 ms", line) for line in lines[8:-1])


def labels(table):
    return list(table.columns[0].cells)


def test_a_small_terminal_shows_devices_and_the_slowest_gmis():
    row = ROW | {
        "gmis": {str(i): {"sim_s": 0.1, "act_s": 0.01, "learn_s": 0.2, "sync_s": 0.3 - 0.1 * i} for i in range(4)}
    }
    assert labels(gmi_table(row, tiny_layout(4), 5)) == ["GMI 0", "GMI 1", "GMI 2", "GMI 3"]
    small = gmi_table(row, tiny_layout(4), 3)
    assert labels(small) == ["cpu 0, 4 GMIs", "GMI 3", "GMI 2"]  # they wait least: the others wait for them
    assert next(iter(small.columns[4].cells)) == "150 ms"
    assert labels(gmi_table(row, tiny_layout(4), 1)) == ["cpu 0, 4 GMIs"]


def test_a_terminal_sees_a_table_and_the_result_stays(tmp_path):
    """A real training on a pseudo-terminal of 24 lines."""
    arguments = ["train", "--num-env", "8", "--set", "learner.horizon=4", "--iterations", "3", "--gmis-per-gpu", "1"]
    code = f"import sys; sys.argv = ['gmi-drl', *{arguments!r}]; from gmi_drl.cli import main; main()"
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=follower, stderr=follower, cwd=tmp_path, env=env) as run:
        os.close(follower)
        seen = b""
        try:
            while chunk := os.read(leader, 4096):
                seen += chunk
        except OSError:  # the other end has closed
            pass
    os.close(leader)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    assert run.returncode == 0 and "steps/s" in text and "simulate" in text and "Done: runs/ant-" in text


@pytest.mark.parametrize(("gmis", "more"), [(1, ""), (2, " (8 per GMI; the GMIs together learn from 64 steps per")])
def test_what_grows_with_the_number_of_gmis_is_said_in_all(tmp_path, capsys, gmis, more):
    TrainingView(tiny_layout(gmis), tiny_config(), RunFolder(tmp_path), quiet=True).announce()
    assert f"with {8 * gmis} environments in {tmp_path}{more}" in capsys.readouterr().err
