import signal
from contextlib import contextmanager, suppress

import psutil
import pytest
from conftest import open_layout, tiny_config, tiny_layout

from gmi_drl.errors import GmiError, GmiWarning
from gmi_drl.launch import close_environments
from gmi_drl.launch.close_environments import Closing
from gmi_drl.roles.launcher.connection import encode, socket_pair
from gmi_drl.roles.launcher.protocol import Closed, Done, Warned
from gmi_drl.run.folder import RunFolder

ROLE = """
import subprocess, time
from pathlib import Path
from types import SimpleNamespace
import gmi_drl as GMI_DRL

HERE = Path(__file__).parent

class Server(GMI_DRL.DRL_role):
    def GMI_run(self, on_close, fails=False):
        program = subprocess.Popen(["sleep", "600"])
        (HERE / "program").write_text(str(program.pid))
        def close():
            (HERE / "closed").write_text(f"{program.poll()}")
            if on_close == "hangs":
                time.sleep(600)
            if on_close == "breaks":
                raise OSError("the recorder is gone")
        self.mgr.tasks.append(SimpleNamespace(spec=SimpleNamespace(name="zoo:Lion"), close=close))
        if fails:
            raise ValueError("a bug in my role")
        return "a result"
"""


@contextmanager
def served(tmp_path, **params):
    (tmp_path / "role.py").write_text(ROLE)
    folder, roles = RunFolder(tmp_path / "run"), {0: f"{tmp_path / 'role.py'}:Server"}
    folder.create()
    with open_layout(tiny_layout(1, task="ant"), tiny_config(), folder, roles, params, slot_bytes=64) as processes:
        yield processes


def assert_closed(tmp_path):
    """The task was closed while its program ran, which is gone now."""
    assert (tmp_path / "closed").read_text() == "None"
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int((tmp_path / "program").read_text())).wait(60)


def test_what_a_role_has_made_is_closed_at_its_end_and_complaints_are_told(tmp_path):
    with pytest.warns(GmiWarning, match="^GMI 0: zoo:Lion failed to close: OSError: the recorder is gone$"):
        with served(tmp_path, on_close="breaks") as processes:
            for _ in processes.events():
                pass
        assert processes.results == {0: "a result"}
    assert_closed(tmp_path)


def test_what_a_role_that_fails_has_made_is_closed_and_one_that_does_not_close_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(close_environments, "CLOSE_S", 0.5)
    with (
        pytest.warns(GmiWarning, match=r"^GMI 0: it has not closed ant within 0\.5 s: its process is killed$"),
        pytest.raises(GmiError, match=r"^GMI 0: ValueError: a bug in my role"),
        served(tmp_path, on_close="hangs", fails=True) as processes,
    ):
        for _ in processes.events():
            pass
    assert_closed(tmp_path)


class Told:
    """A GMI that says something more, and how it ended."""

    def __init__(self, *words, code=None):
        self._line, theirs = socket_pair()
        self._line.setblocking(False)
        self.connection_fd, self.code = self._line.fileno(), code
        with theirs:
            for word in words:
                theirs.send(word if isinstance(word, bytes) else encode(word))
            self._held = None if code is not None else theirs.dup()

    def receive(self):
        try:
            return self._line.recv(9999)
        except BlockingIOError:
            return None

    def exit_code(self, wait_s):
        return self.code


def test_all_share_one_deadline_and_whoever_has_closed_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(close_environments, "CLOSE_S", 0.2)
    heard = Closing("ant")
    heard.add_closed(4, Closed())
    gmis = {0: Told(Done(1), Closed()), 1: Told(), 2: Told(code=0), 3: Told(code=-signal.SIGSEGV), 4: None, 5: Told()}
    with pytest.warns(GmiWarning) as told:
        heard.wait(gmis)
    assert [str(one.message) for one in told] == [
        "GMI 1: it has not closed ant within 0.2 s: its process is killed",
        "GMI 3: its process was killed by SIGSEGV while it closed ant",
        "GMI 5: it has not closed ant within 0.2 s: its process is killed",
    ]


def test_what_is_said_while_closing_is_told_and_ends_nothing():
    gmis = {0: Told(Warned("12 frames are lost"), Closed()), 1: Told(b"?", Closed("the recorder is gone"))}
    with pytest.warns(GmiWarning) as told:
        Closing("ant").wait(gmis)
    assert [str(one.message) for one in told] == [
        "GMI 0: 12 frames are lost",
        "GMI 1: it has sent a malformed message while it closed ant: Expecting value: line 1 column 1 (char 0)",
        "GMI 1: the recorder is gone",
    ]
