import os
import subprocess
import sys
import time

import pytest
from conftest import children_of, environment, open_descriptors, open_layout, tiny_config, tiny_layout, two_cores
from toys import install_backend

from gmi_drl.errors import MachineError
from gmi_drl.run.folder import RunFolder

ROLES = """
import gmi_drl as GMI_DRL

class First(GMI_DRL.DRL_role):
    def GMI_run(self, **params):
        return ["first", params, sorted(self.mgr.resources.rendezvous["trainers"].descriptors)]

class Second(First):
    def GMI_run(self, **params):
        return ["second", params, sorted(self.mgr.resources.rendezvous["trainers"].descriptors)]
"""


@pytest.fixture
def place(tmp_path):
    """A run folder, and two roles."""
    (tmp_path / "roles.py").write_text(ROLES)
    folder = RunFolder(tmp_path / "run")
    folder.create()
    return folder, {gmi_id: f"{tmp_path}/roles.py:{name}" for gmi_id, name in enumerate(("First", "Second"))}


@two_cores
@pytest.mark.parametrize(
    ("reduction", "resources"),
    [("MPR-shm", ["segment"]), ("MPR-gloo", ["segment", "store"]), ("HAR", ["addresses", "listener", "segment"])],
)
def test_each_gmi_has_its_own_role_and_what_all_share(place, reduction, resources):
    layout = tiny_layout(2, reduction=reduction)
    before = open_descriptors()
    with open_layout(layout, tiny_config(), *place, {"x": 1}, slot_bytes=64) as processes:
        for _ in processes.events():
            pass
    assert processes.results == {0: ["first", {"x": 1}, resources], 1: ["second", {"x": 1}, resources]}
    assert place[0].read_setup() == (layout, tiny_config())
    assert open_descriptors() == before and not children_of(os.getpid())


NOT_INSTALLED = """
from dataclasses import replace
from gmi_drl.layout.reductions import MPR_SHM
METHOD = replace(MPR_SHM, name="toy", package="no-such-package")
"""


@two_cores
def test_nothing_is_started_that_reduces_by_what_is_not_installed(place, install):
    install({"gmi_drl.reductions": "toy = toy_method:METHOD"}, {"toy_method": NOT_INSTALLED})
    layout, remedy = tiny_layout(2, reduction="toy"), r"'toy' needs no-such-package.*'gmi-drl\[no-such-package\]'"
    with pytest.raises(MachineError, match=remedy), open_layout(layout, tiny_config(), *place, {}, slot_bytes=64):
        pass
    assert not place[0].layout_file.exists() and not place[0].log_file(0).exists()


def test_nothing_is_left_of_a_layout_that_does_not_start(place, install):
    toy = install_backend(install)
    folder, roles = place
    folder.log_file(0).mkdir()  # so that the process cannot be started
    before = open_descriptors()
    with (
        pytest.raises(IsADirectoryError),
        open_layout(tiny_layout(1, backend="toy"), tiny_config(), folder, roles, {}, slot_bytes=64),
    ):
        pass
    assert (toy.cuts, toy.alive) == (1, 0) and not folder.rendezvous_folder.exists()
    assert open_descriptors() == before and not children_of(os.getpid())


def test_nothing_is_started_where_the_memory_is_lacking(place, monkeypatch):
    monkeypatch.setattr("gmi_drl.hardware.host_memory.available_bytes", lambda: 2**27)
    before, told = open_descriptors(), r"this machine needs 129\.\d MiB .* 128\.0 MiB are free, .*: use fewer GMIs"
    with (
        pytest.raises(MachineError, match=told),
        open_layout(tiny_layout(2), tiny_config(), *place, {}, slot_bytes=2**26),
    ):
        pass
    assert not place[0].layout_file.exists() and not place[0].log_file(0).exists()
    assert open_descriptors() == before and not children_of(os.getpid())


KILLED = """
import os, signal, sys
from gmi_drl.gmi import claimed
from gmi_drl.launch.open_layout import opened_briefly
from tests.conftest import tiny_layout

layout = tiny_layout(1)
with claimed([layout], "a test") as claim, opened_briefly(claim, layout, sys.argv[1], {}, slot_bytes=64, hang_s=60):
    print(os.listdir(os.environ["TMPDIR"]), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_temporary_run_folder_goes_with_a_launcher_that_is_killed(place, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command, own = [sys.executable, "-c", KILLED, place[1][0]], {"TMPDIR": str(temporary)}
    printed = subprocess.run(command, env=environment() | own, capture_output=True, text=True, timeout=90).stdout
    deadline = time.monotonic() + 60
    while list(temporary.glob("gmi-drl-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "gmi-drl-" in printed and not list(temporary.glob("gmi-drl-*"))
