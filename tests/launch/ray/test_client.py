import io
import sys
from types import SimpleNamespace

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.launch.ray import client, process
from gmi_drl.launch.ray.client import RayClient

LAYOUT = SimpleNamespace(model_dump_json=lambda: "{}")


def test_a_driver_that_says_what_is_no_word_is_ended_and_an_error_at_once(tmp_path, monkeypatch):
    program = tmp_path / "driver"
    program.write_text('#!/bin/sh\necho \'{"say": "rea\'\nexec sleep 600\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    guard = SimpleNamespace(watch=lambda pid: None, close=lambda: None)
    monkeypatch.setattr(client, "Reaper", lambda: guard)
    with pytest.raises(MachineError, match=r"the process that speaks with Ray \(\d+\) was killed by SIGKILL"):
        RayClient(LAYOUT)


def test_a_launcher_that_says_what_is_no_word_has_gone_for_its_driver(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"number": 1}\n{"numb')))
    monkeypatch.setattr(process.threading, "excepthook", lambda args: None)
    heard = process.words()
    assert [heard.get(timeout=30) for _ in range(2)] == [{"number": 1}, None]


def test_an_end_of_an_agent_that_ray_cannot_tell_of_is_an_end():
    def how_it_ended():
        raise RuntimeError("Ray has not been started yet")

    told = []
    agent = SimpleNamespace(node=SimpleNamespace(name="n1"), how_it_ended=how_it_ended)
    process.watch(3, agent, SimpleNamespace(tell=told.append))
    why = "Ray cannot tell how the agent on n1 does: RuntimeError: Ray has not been started yet"
    assert told == [{"say": "gone", "agent": 3, "why": why}]
