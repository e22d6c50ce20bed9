"""What is set before worlds or graphs are made, in every role of ours."""

import pytest
import torch
from conftest import tiny_config, tiny_layout

from gmi_drl.roles.launcher.connection import LauncherConnection, socket_pair
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.roles.manager import GMI_manager
from gmi_drl.roles.probes import probe
from gmi_drl.roles.probes.ppo_probe import PPOProbe
from gmi_drl.roles.serving import server
from gmi_drl.roles.training import holistic
from gmi_drl.run.folder import RunFolder

ROLES = {
    "training": lambda: holistic.Holistic(0, "holistic", 0).GMI_run(),
    "probing": lambda: PPOProbe(0, "holistic", 0).GMI_run(),
    "serving": lambda: server.Server(0, "simulator+agent", 0).GMI_run(steps=1, seed=0, stochastic=False),
}


class ReachedError(Exception):
    """The worlds would be made now."""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a GMI with a configuration; how torch multiplies as it makes its worlds."""

    def open_task(*args):
        raise ReachedError

    for module in (holistic, probe, server):
        monkeypatch.setattr(module, "open_task", open_task)
    ours, theirs = socket_pair()
    layout, folder = tiny_layout(gmis=1), RunFolder(tmp_path / "run")
    manager = GMI_manager(
        layout, layout.gmis[0], folder.path, tmp_path, LauncherConnection(theirs.detach()), Resources(), hang_s=5
    )
    monkeypatch.setattr(GMI_manager, "_current", manager)
    folder.create()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")

    def start(role, device, config):
        monkeypatch.setattr(GMI_manager, "device", torch.device(device))
        folder.write_setup(layout, config)
        with pytest.raises(ReachedError):
            ROLES[role]()
        return torch.get_float32_matmul_precision()

    yield start
    torch.set_float32_matmul_precision(before)
    manager.close()
    ours.close()


@pytest.mark.parametrize("role", ROLES)
def test_tf32_is_asked_of_torch_on_a_gpu_by_those_who_want_it(start, role):
    assert start(role, "cuda:0", tiny_config(tf32=True)) == "high"
    assert start(role, "cuda:0", tiny_config()) == "highest"


def test_tf32_is_nothing_to_a_cpu(start):
    assert start("training", "cpu", tiny_config(tf32=True)) == "highest"
