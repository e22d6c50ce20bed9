import io
import sys
from types import SimpleNamespace

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.launch.ray import client, process
from gmi_drl.launch.ray.client import RayClient

LAYOUT = SimpleNamespace(model_dump_json=lambda: "{}")


def test_a_driver_is_killed_at_a_malformed_message(tmp_path, monkeypatch):
    program = tmp_path / "driver"
    program.write_text('#!/bin/sh\necho \'{"type": "rea\'\nexec sleep 600\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    guard = SimpleNamespace(watch=lambda pid: None, close=lambda: None)
    monkeypatch.setattr(client, "Reaper", lambda: guard)
    with pytest.raises(MachineError, match=r"the process that uses Ray \(\d+\) was killed by SIGKILL"):
        RayClient(LAYOUT)


def test_a_malformed_message_counts_as_the_end_of_the_launcher(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"number": 1}\n{"numb')))
    monkeypatch.setattr(process.threading, "excepthook", lambda args: None)
    heard = process.read_messages()
    assert [heard.get(timeout=30) for _ in range(2)] == [{"number": 1}, None]


def test_an_unknown_end_of_a_supervisor_is_reported():
    def how_it_ended():
        raise RuntimeError("Ray has not been started yet")

    told = []
    agent = SimpleNamespace(name="n1", how_it_ended=how_it_ended)
    process.watch(3, agent, SimpleNamespace(send=told.append))
    why = "Ray cannot say how the supervisor on n1 is: RuntimeError: Ray has not been started yet"
    assert told == [{"type": "ended_by_itself", "supervisor": 3, "why": why}]
