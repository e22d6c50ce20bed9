"""With Pythons of a few lines in the place of a client's; what is trained for real, `make interop` shows."""

import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from conftest import two_cores

from tools.interop import __main__ as command
from tools.interop import mjlab
from tools.interop.clients import CLIENTS, open_named
from tools.interop.results import Results
from tools.interop.runs import RunFailedError, Trial, last_words, train

TINY = ("--set", "learner.horizon=4", "--set", "learner.epochs=1")


@pytest.fixture
def stand_in(tmp_path):
    """Makes a program of shell that stands in for a Python."""

    def make(code):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{code}\n")
        path.chmod(0o755)
        return path

    return make


@two_cores
def test_a_task_trains_on_two_gmis_and_leaves_a_checkpoint_of_its_end(tmp_path):
    folder = train(sys.executable, Trial("gymnasium:Pendulum-v1", TINY), 2, tmp_path / "run")
    assert [path.name for path in sorted(folder.checkpoints.iterdir())][-1] == "000002"


def test_a_failure_is_told_by_its_code_and_last_words(tmp_path):
    with pytest.raises(RunFailedError, match=r"exit code 2: .*nothing makes 'nothing'"):
        train(sys.executable, Trial("nothing:at-all"), 1, tmp_path / "run")
    assert last_words("one\n two \n\n") == "two" and last_words("\n") == "it said nothing"


def test_a_run_that_trains_nothing_is_no_success(tmp_path, stand_in):
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").touch()
    with pytest.raises(RunFailedError, match="reported 0 iterations by 0 GMIs"):
        train(stand_in("exit 0"), Trial("any"), 1, run)


def test_rows_tell_how_it_went_on_one_gmi_and_on_two(stand_in):
    with open_named(("any:task",), stand_in("echo 'gmi-drl: no' >&2; exit 4")) as trials:
        assert trials["any:task"]() == {
            "1 GMI": "fails: exit code 4: gmi-drl: no",
            "2 GMIs": "fails: exit code 4: gmi-drl: no",
        }


def test_a_refusal_is_exit_code_2_and_a_sentence(tmp_path, stand_in):
    def refused(code):
        return mjlab.refusal(stand_in(code), Trial("any"), tmp_path)

    assert refused("echo 'gmi-drl: it needs a motion' >&2; exit 2") == "exit code 2: gmi-drl: it needs a motion"
    assert refused("exit 0") == "fails: exit code 0: it said nothing"
    assert refused("echo Traceback >&2; echo 'no motion' >&2; exit 2") == "fails: exit code 2: no motion"


def test_models_are_compared_bit_by_bit(tmp_path):
    def save(name, weight, **more):
        path = tmp_path / name
        torch.save({"actor_state_dict": {"w": torch.tensor([weight])}, "critic_state_dict": more, "infos": None}, path)
        return path

    one = save("one", 1.0)
    assert mjlab.compare(one, save("same", 1.0)) == "same weights after 5 iterations, bit for bit"
    assert mjlab.compare(one, save("near", 1.5)) == "weights differ by up to 0.5 after 5 iterations"
    assert mjlab.compare(one, save("more", 1.0, b=torch.zeros(1))) == "networks differ: critic_state_dict.b"


def test_mjlab_tells_its_tasks_in_its_last_line(tmp_path, stand_in):
    told = json.dumps({"A": False, "B": True})
    assert mjlab.tasks(stand_in(f"echo noise; echo '{told}'"), tmp_path) == {"A": False, "B": True}
    with pytest.raises(RunFailedError, match="mjlab cannot be asked: no module"):
        mjlab.tasks(stand_in("echo no module >&2; exit 1"), tmp_path)


def test_a_client_that_is_not_installed_is_named_with_the_remedy(tmp_path, capsys):
    nowhere = replace(CLIENTS["mjlab"], python=tmp_path / "python", remedy="make it")
    assert command._try(nowhere, None, False, Results(tmp_path / "interop.json"))
    assert capsys.readouterr().out == "mjlab is not installed: make it\n"


def test_a_stopped_run_goes_on_with_what_is_missing(tmp_path):
    tried = []

    @contextmanager
    def open_two(python):
        yield {task: partial(lambda task: tried.append(task) or {"1 GMI": "trains"}, task) for task in ("A", "B")}

    here = replace(CLIENTS["mjlab"], python=Path(sys.executable), packages=("torch",), open=open_two)
    results = Results(tmp_path / "interop.json")
    results.add("mjlab", {"torch": torch.__version__}, "A", {"1 GMI": "trains"})
    assert command._try(here, None, True, results) and tried == ["B"]
    assert command._try(here, ["A"], False, results) and tried == ["B", "A"]


def test_a_client_has_versions_where_all_its_packages_are():
    here = replace(CLIENTS["mjlab"], python=Path(sys.executable), packages=("torch",))
    assert here.versions() == {"torch": torch.__version__}
    assert replace(here, packages=("torch", "no-such-package")).versions() == {}
