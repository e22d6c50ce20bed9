from pathlib import Path

import pytest
import torch
from conftest import tiny_layout

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.errors import MachineError, PeerSilentError, UsageError
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.roles.drl_role import DRL_role
from gmi_drl.roles.launcher.connection import LauncherConnection, socket_pair
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.roles.manager import GMI_manager, NamedGroup


@pytest.fixture
def manager(monkeypatch):
    ours, theirs = socket_pair()
    layout = tiny_layout(gmis=1)
    manager = GMI_manager(
        layout,
        layout.gmis[0],
        Path("unused"),
        Path("unused"),
        LauncherConnection(theirs.detach()),
        Resources(),
        hang_s=5,
    )
    monkeypatch.setattr(GMI_manager, "_current", manager)
    yield manager
    manager.close()
    ours.close()


class Doubler(DRL_role):
    def GMI_run(self, value):
        data = torch.full((3,), float(value))
        self.GMI_collective(data)
        return data.tolist()


def test_listing_1_works(manager):
    role = Doubler(0, "trainer", 0)
    assert role.group.members == (0,) and role.GMI_run(value=4) == [4, 4, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((1, "trainer", 0), "this process is GMI 0"), ((0, "trainer", 3), "has GMI 0 on cpu 0, not on 3")],
)
def test_a_role_that_contradicts_the_layout_is_refused(manager, arguments, message):
    with pytest.raises(UsageError, match=message):
        Doubler(*arguments)


def test_a_group_of_one_sums_nothing_whatever_its_reduction(manager):
    groups = {"trainers": GmiGroup(members=(0,), reduction="MPR-shm")}
    manager.layout = manager.layout.model_copy(update={"groups": groups})
    assert type(manager.reduction(manager.get_group(0, 0))) is NoReduction


def test_a_group_has_a_link_if_its_learner_has_shards(manager):
    assert manager.link(manager.get_group(0, 0)).size == 1
    with pytest.raises(UsageError, match="group 'trainers' has no link: those of learners with shards have one"):
        manager.link(NamedGroup("trainers", (0, 1)))


def test_a_group_whose_opening_failed_is_not_opened_again(manager, monkeypatch):
    opened = []

    def lost(self, group):
        opened.append(group)
        raise PeerSilentError("GMI 1 has not come")

    monkeypatch.setattr(GMI_manager, "_open", lost)
    for _ in range(2):
        with pytest.raises(PeerSilentError, match="GMI 1 has not come"):
            manager.reduction(manager.get_group(0, 0))
    assert len(opened) == 1


def test_what_cannot_be_summed_is_refused(manager):
    role = Doubler(0, "trainer", 0)
    with pytest.raises(UsageError, match=r"takes a flat contiguous torch.float32 vector .*, not \[1\.0\]"):
        role.GMI_collective([1.0])


def test_a_gmi_in_no_group_is_alone(manager):
    manager.layout = manager.layout.model_copy(update={"groups": {}})
    role = Doubler(0, "simulator+agent", 0)
    assert role.group.members == (0,) and role.GMI_run(value=4) == [4, 4, 4]


def test_groups_that_do_not_exist_are_refused(manager):
    with pytest.raises(UsageError, match="no group with GMIs"):
        manager.get_group(0, 5)


def test_messages_stay_on_a_node(manager):
    devices = tuple(
        Device(node=node, kind="cpu", gmis=(GMI(id=number, num_env=1, cores=(0,)),)) for number, node in enumerate("ab")
    )
    manager.layout = Layout(devices=devices)
    for call in (lambda: manager.send(torch.zeros(1), 1), lambda: manager.recv(1)):
        with pytest.raises(UsageError, match="GMI 1 is on node b, this one on a: messages go between GMIs of a node"):
            call()


def test_a_role_outside_a_gmi_says_how_to_start_it(monkeypatch):
    monkeypatch.setattr(GMI_manager, "_current", None)
    with pytest.raises(UsageError, match="run_role"):
        Doubler(0, "trainer", 0)


def test_a_gmi_on_a_gpu_needs_a_torch_with_cuda(manager, monkeypatch):
    devices = tuple(device.model_copy(update={"kind": "gpu"}) for device in manager.layout.devices)
    manager.layout = manager.layout.model_copy(update={"devices": devices})
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    with pytest.raises(MachineError, match=r"built without CUDA, and GMI 0 is on a GPU: install one"):
        assert manager.device
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    assert manager.device == torch.device("cuda:0")
