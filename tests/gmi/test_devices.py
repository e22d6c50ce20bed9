import os
import subprocess
import sys

import psutil
import pytest
from conftest import environment, tiny_layout
from toys import install_backend

from gmi_drl.errors import LayoutMismatchError, UsageError
from gmi_drl.gmi import ProcessBackend, backend_for, claimed
from gmi_drl.gmi.devices import refusals
from gmi_drl.layout.layout import GMI, Device, Layout

ELSEWHERE = Layout(devices=(Device(kind="cpu", gmis=(GMI(id=0, num_env=1, cores=(999,)),)),))
HOLDER = """
import os, signal, sys
from toy_backend import Toy
from gmi_drl.gmi import claimed
from gmi_drl.layout.layout import Layout
with claimed([Layout.model_validate_json(sys.argv[1])], "a test"):
    print(*Toy.daemons, flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def toy(install):
    """The class of the backend "toy", with a `layout`."""
    backend = install_backend(install)
    backend.layout = tiny_layout(1, backend="toy")
    return backend


def test_the_backend_is_the_one_that_the_layout_names(toy):
    assert type(backend_for(tiny_layout(1))) is ProcessBackend
    assert type(backend_for(toy.layout)) is toy


def test_a_layout_for_other_hardware_is_refused_with_the_numbers():
    with (
        pytest.raises(LayoutMismatchError, match=r"uses cores 999, this process may use 0..\d+.*gmi-drl plan"),
        claimed([tiny_layout(1), ELSEWHERE], "a test"),
    ):
        pass


def test_devices_are_claimed_once_for_all_layouts_that_are_cut_on_them():
    one = tiny_layout(1)
    with claimed([one, one], "a test") as claim:
        with claim.cut(one) as first, claim.cut(one) as second:
            assert first is not second and first.environment(0) == second.environment(0)
        with pytest.raises(LayoutMismatchError, match=f"in use by process {os.getpid()} .a test."), claimed([one], "b"):
            pass
    with claimed([one], "b"):
        pass


@pytest.mark.parametrize("change", [{"backend": "toy"}, {"devices": ELSEWHERE.devices}, {"task": "humanoid"}])
def test_a_layout_that_was_not_claimed_is_not_cut(toy, change):
    """Whether it has the devices of one that was, others, or such as are nowhere on this machine."""
    one = tiny_layout(1)
    with claimed([one], "a test") as claim, pytest.raises(UsageError, match="claimed for it"):
        claim.cut(one.model_copy(update=change))
    assert toy.cuts == 0


def test_nothing_is_cut_when_the_claim_has_ended(toy):
    with claimed([toy.layout], "a test") as claim:
        pass
    with pytest.raises(UsageError, match="claimed for it"):
        claim.cut(toy.layout)
    assert toy.cuts == 0


def test_what_cuts_share_is_there_once_for_each_claim(toy):
    """Before anything is cut, and until the last cut is undone."""
    with claimed([toy.layout, tiny_layout(1), toy.layout], "a test") as claim:
        (daemon,) = map(psutil.Process, toy.daemons)
        for _ in range(2):
            with claim.cut(toy.layout) as instances, claim.cut(tiny_layout(1)):
                assert instances.environment(0)["TOY_DAEMON"] == str(daemon.pid) and toy.alive == 1
        assert daemon.is_running()
    assert not daemon.is_running() and toy.cuts == 2
    with claimed([toy.layout], "a test"):
        assert len(toy.daemons) == 2


def test_devices_in_use_get_no_daemon(toy):
    with claimed([tiny_layout(1)], "a"), pytest.raises(LayoutMismatchError, match="in use"), claimed([toy.layout], "b"):
        pass
    assert not toy.daemons


def test_cut_and_claim_are_undone_however_their_blocks_end(toy):
    with pytest.raises(KeyboardInterrupt), claimed([toy.layout], "a test") as claim, claim.cut(toy.layout):
        (daemon,) = map(psutil.Process, toy.daemons)
        raise KeyboardInterrupt
    assert toy.alive == 0 and not daemon.is_running()
    with claimed([toy.layout], "a test"):
        pass


def test_what_cuts_share_ends_with_a_process_that_is_killed(toy):
    command, pipes = (
        [sys.executable, "-c", HOLDER, toy.layout.model_dump_json()],
        {"stdin": -1, "stdout": -1, "text": True},
    )
    with subprocess.Popen(command, env=environment(), **pipes) as holder:
        daemon = psutil.Process(int(holder.stdout.readline()))
        assert daemon.is_running()
        holder.communicate("go on\n")
    _, left = psutil.wait_procs([daemon], timeout=60)
    assert not left


def test_a_layout_over_nodes_is_not_cut_here():
    away = Layout(devices=(Device(node="a", kind="cpu", gmis=(GMI(id=0, num_env=1, cores=(0,)),)),))
    with (
        pytest.raises(LayoutMismatchError, match=r"over nodes \(a\), which no single machine opens"),
        claimed([away], ""),
    ):
        pass
    assert refusals(away)
