"""With a stand-in for wandb everywhere; with wandb itself, offline, where it is installed."""

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import tiny_config, tiny_layout
from test_tags import ROW

from gmi_drl.errors import MachineError
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.writers.tags import scalars

MODULE = "gmi_drl.run.writers.wandb"


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "ant-1")
    folder.create()
    folder.write_setup(tiny_layout(1), tiny_config())
    return folder


class StandIn:
    """Stands in for the package, which `make test` does not install."""

    def __init__(self, mode="online", has_account=True):
        self.mode, self.has_account, self.calls = mode, has_account, []

    def setup(self):
        return SimpleNamespace(settings=SimpleNamespace(mode=self.mode))

    def login(self, prompt):
        assert not prompt and self.mode == "online"
        return self.has_account

    def init(self, **facts):
        self.facts = facts
        return self

    def Settings(self, **settings):  # noqa: N802
        return settings

    def log(self, values, step):
        self.calls.append((step, values))

    def finish(self):
        self.calls.append("finish")


@pytest.fixture
def make(folder, monkeypatch):
    """Make a writer with this stand-in."""

    def start(package):
        monkeypatch.delitem(sys.modules, MODULE, raising=False)
        monkeypatch.setitem(sys.modules, "wandb", package)
        return import_module(MODULE).WeightsAndBiases(folder)

    yield start
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize("project", [None, "robots"])
def test_configuration_numbers_and_an_end(make, monkeypatch, folder, project):
    if project:
        monkeypatch.setenv("WANDB_PROJECT", project)
    wandb = StandIn()
    writer = make(wandb)
    writer.write(ROW)
    writer.close()
    assert (wandb.facts["project"], wandb.facts["name"]) == (project or "gmi-drl", "ant-1")
    assert wandb.facts["dir"] == folder.path and wandb.facts["config"]["layout"]["task"] == "ant"
    assert wandb.facts["config"]["iterations"] == tiny_config().iterations
    assert wandb.calls == [(7, scalars(ROW)), "finish"]


def test_without_an_account_it_fails_without_asking(make):
    with pytest.raises(MachineError, match=r"`wandb login` once, or set WANDB_MODE=offline"):
        make(StandIn(has_account=False))
    make(StandIn(mode="offline"))


def test_without_the_package_it_says_what_to_install(make):
    with pytest.raises(MachineError, match=r"pip install 'gmi-drl\[wandb\]'"):
        make(None)


OFFLINE = """
import sys
from pathlib import Path
from test_tags import ROW
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.writers.wandb import WeightsAndBiases

writer = WeightsAndBiases(RunFolder(Path(sys.argv[1])))
writer.write(ROW)
writer.write(ROW | {"iteration": 8, "kl": 0.5})
writer.close()
print("torch" in sys.modules)
"""


@pytest.mark.skipif(find_spec("wandb") is None, reason="needs the extra [wandb]")
def test_wandb_itself_offline(folder):
    where = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "WANDB_MODE": "offline", "PYTHONPATH": where}
    command = [sys.executable, "-c", OFFLINE, str(folder.path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == "False\n", run.stderr
    (kept,) = folder.path.glob("wandb/offline-run-*/*.wandb")
    assert b"Train/mean_reward" in kept.read_bytes()
