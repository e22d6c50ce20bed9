"""How busy GPUs were in the rows of a training, in what is served and in what is measured: on cores, beside a GPU."""

import os
import signal
import time

import pytest
from conftest import started, tiny_config, tiny_layout

from gmi_drl.launch import serving, supervisor
from gmi_drl.launch.job import resolve
from gmi_drl.launch.serving import serve
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.profiler import session as session_module
from gmi_drl.profiler.session import Session
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.templates.tcg import SERVING
from tests.gmi.nvml.fake import FakeGpu

DEADLINE_S = 60.0


@pytest.fixture
def busy_gpu(fake_nvml, monkeypatch):
    """A GPU that runs and measurements watch although they are on cores."""
    fake_nvml.add(FakeGpu())
    fake_nvml.write("gpus/0/sm_util", 37)
    for module in (supervisor, serving, session_module):
        monkeypatch.setattr(module, "watched_gpus", lambda layout, environment: {fake_nvml.uuid(0): 0})
    return fake_nvml


def test_rows_and_what_is_served_tell_how_busy_the_gpus_were(busy_gpu, tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    config = tiny_config(iterations=10**6)
    seen = []

    def stop_when_told(row):
        if "devices" in row and not seen:
            os.kill(os.getpid(), signal.SIGTERM)
        seen.extend([row] if "devices" in row else [])

    train(resolve(tiny_layout(1), config, folder), on_row=stop_when_told)
    assert seen[0]["devices"]["gpu0"]["sm_util"] == 37 and seen[0]["devices"]["gpu0"]["power_w"] > 0
    kept = [row["devices"] for row in read_metrics(folder.metrics_file) if "devices" in row]
    assert kept and kept[0]["gpu0"]["sm_util"] == 37
    gmi = GMI(id=0, roles=SERVING, num_env=8, cores=(0,))
    layout = Layout(task="ant", template="TCG", devices=(Device(kind="cpu", gmis=(gmi,)),))
    steps, end = 500, time.monotonic() + DEADLINE_S
    while not (served := serve(layout, folder, steps=steps)).devices:
        assert time.monotonic() < end
        steps *= 4
    assert served.devices["gpu0"]["sm_util"] == 37


def test_measurements_tell_how_busy_the_gpus_were(busy_gpu):
    end = time.monotonic() + DEADLINE_S
    with started(Session(tiny_layout(1), tiny_config())) as session:
        while not (devices := session.measure(8, 1.0).devices):
            assert time.monotonic() < end
    assert devices["gpu0"]["sm_util"] == 37
