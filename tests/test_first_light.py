"""The questions need a GPU; here only how they are asked."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "first_light.py"
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")


@pytest.fixture
def first_light(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    spec = importlib.util.spec_from_file_location("first_light", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "first_light", module)
    spec.loader.exec_module(module)
    return module


@no_gpu
def test_a_machine_without_a_gpu_is_refused_in_one_line(tmp_path):
    command = [sys.executable, SCRIPT, "-o", tmp_path / "answers.jsonl"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 4 and ended.stdout == ""
    assert ended.stderr.startswith("first_light: torch sees no CUDA device") and ended.stderr.count("\n") == 1
    assert not (tmp_path / "answers.jsonl").exists()


@no_gpu
def test_a_question_that_fails_keeps_what_it_saw(first_light):
    answer = first_light.ask(1, 30)
    assert answer["state"] == "failed" and answer["saw"]["control"] is None
    assert "nvidia-cuda-mps-control" in answer["saw"]["last_words"][-1]


@no_gpu
def test_a_question_that_takes_too_long_is_ended(first_light):
    answer = first_light.ask(10, 0.5)
    assert answer["state"] == "too late" and answer["seconds"] < 10


def test_there_are_ten_questions(first_light):
    assert list(first_light.QUESTIONS) == list(range(1, 11))
