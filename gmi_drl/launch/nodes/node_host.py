"""What an agent has on its host: its part of a layout, cut, and the GMIs that run in it."""

import os
import selectors
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from gmi_drl.comm.links.control import Message
from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.files import parse
from gmi_drl.gmi import Instances, claimed
from gmi_drl.launch.nodes.folder_upload import FolderUpload
from gmi_drl.launch.processes.gmi_process import CHILD, GMIProcess, processes_here
from gmi_drl.launch.processes.gmi_processes import DRAIN_S
from gmi_drl.launch.shared_resources import HostResources
from gmi_drl.layout.environment import without_mps
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.launcher.connection import decode, encode
from gmi_drl.roles.launcher.protocol import Attached, Failed, OnDevice, Proved, StoreFile, parse_message_to_launcher
from gmi_drl.run.process_names import gmi_of, is_proxy

Say = Callable[..., None]

STAND_IN = "gmi_drl.roles.decoupled.proxy_main"
"""What runs for an agent of another host."""


class Host:
    """Does what a launcher says, in its order: `open`, `take` files, `share`, `meet`, `start` each GMI, `settle`.

    Args:
        node: Its name in layouts.
        address: By which other nodes reach this host.
        selector: Where the lines and ends of GMIs are registered, for `look`.
        say: Tells the launcher.
    """

    def __init__(self, node: str, address: str, selector: selectors.BaseSelector, say: Say) -> None:
        self._node, self._address, self._selector, self._say = node, address, selector, say
        self._life, self._sharing = ExitStack(), ExitStack()
        self._gmis: dict[int, GMIProcess] = {}  # and who stands in for some, by number
        self._mirror: FolderUpload | None = None
        self._does: Mapping[str, Callable[..., Message | None]] = {
            "open": self._open,
            "take": self._take,
            "share": self._share,
            "meet": self._meet,
            "start": self._start,
            "settle": self._settle,
            "word": self._word,
            "ask_to_end": self._ask_to_end,
            "release": self._release,
            "end": self._end,
        }

    def do(self, message: Message, data: bytes) -> Message | None:
        """Do as it says. Returns the answer, if there is one.

        Raises:
            GmiError: which is the answer then.
        """
        given = {**message, "data": data} if data else dict(message)
        return self._does[given.pop("say")](**given)

    def look(self, gmi_id: int, has_ended: bool) -> None:
        """Carry what a GMI has said; of one that has ended tell how, after its last words."""
        gmi = self._gmis[gmi_id]
        while (data := gmi.receive()) is not None:
            if not data:
                if not has_ended:
                    self._selector.unregister(gmi.line_fd)
                    self._say({"say": "line_ended", "gmi": gmi_id})
                break
            self._carry(gmi_id, gmi, data)
        if has_ended:
            self._selector.unregister(gmi.exit_fd)
            if self._mirror:
                self._mirror.carry_log(gmi_id)  # its last words before its end
            self._say({"say": "ended", "gmi": gmi_id, "code": gmi.exit_code(0)})

    def close(self) -> None:
        """End everything; GMIs that drain have `DRAIN_S` for it."""
        for gmi in self._gmis.values():
            gmi.ask_to_end()
        deadline = time.monotonic() + DRAIN_S
        for gmi in self._gmis.values():
            gmi.exit_code(deadline - time.monotonic())
        self._sharing.close()
        self._life.close()

    def _open(
        self,
        layout: Mapping[str, Any],
        run_folder: str,
        token: str,
        begins_with: int,
        purpose: str,
        apply_mig: bool,
        cpus: list[int],
        claims: bool,
    ) -> Message:
        """Claim and cut the devices."""
        self._layout, home = parse(Layout, dict(layout), "layout"), Path(run_folder)
        os.sched_setaffinity(0, cpus)
        part, self._ids = self._layout.part_on(self._node)
        with ExitStack() as undone:
            if not claims:  # another agent of this run holds the host's devices
                own = undone.enter_context(tempfile.TemporaryDirectory(prefix="gmi-drl-claims-"))
                os.environ["GMI_DRL_CLAIMS"] = own
            claim = undone.enter_context(claimed([part], purpose, apply_mig=apply_mig))
            self._instances: Instances = undone.enter_context(claim.cut(part))
            if not _sees(home, token):
                self._mirror = undone.enter_context(FolderUpload(home, self._say, begins_with))
            self._starter = undone.enter_context(processes_here())
            undone.callback(self._end_all)
            self._life = undone.pop_all()
        return {"say": "opened", "drains": self._instances.drains, "sees_folder": self._mirror is None}

    def _take(self, file: str, data: bytes = b"") -> None:
        """Add to a file of the run folder, which this host does not see."""
        assert self._mirror is not None
        self._mirror.take(file, data)

    def _here(self, path: str) -> Path:
        """Where a path within the run folder is on this host."""
        return self._mirror.here(path) if self._mirror else Path(path)

    def _share(self, slot_bytes: int) -> Message:
        """Make what the GMIs share."""
        resources = HostResources(self._layout, slot_bytes, self._node, self._address)
        self._resources = self._sharing.enter_context(closing(resources))
        return {"say": "shared", "addresses": self._resources.addresses}

    def _meet(self, meetings: Mapping[str, Any]) -> None:
        """Hear where all ranks of all nodes listen."""
        self._resources.meet(
            {
                name: RankAddresses(tuple((host, port) for host, port in addresses), token)
                for name, (addresses, token) in meetings.items()
            }
        )

    def _start(self, order: dict[str, Any], log: str, environment: Mapping[str, str | None]) -> Message:
        """Start a GMI, or who stands in for one; `environment` is what differs from this host's and the backend's."""
        number: int = order["gmi"]
        gmi_id = gmi_of(number)
        ours = {} if is_proxy(number) else self._instances.environment(self._ids.index(gmi_id))
        wanted = {**without_mps(os.environ), **ours, **environment}
        complete = {name: value for name, value in wanted.items() if value is not None}
        for name in ("layout", "run_folder", "meeting"):
            order[name] = str(self._here(order[name]))
        order["is_remote"] = self._mirror is not None
        module = CHILD
        if is_proxy(number):
            order |= {"gmi": gmi_id, "home": self._node, "drains": False}  # no device is its
            module = STAND_IN
        started = self._starter(order, complete, self._here(log), self._resources[gmi_id], module=module)
        if self._mirror:
            self._mirror.watch_log(number)
        self._gmis[number] = started
        self._selector.register(started.line_fd, selectors.EVENT_READ, (number, False))
        self._selector.register(started.exit_fd, selectors.EVENT_READ, (number, True))
        return {"say": "started", "gmi": number, "pid": started.pid}

    def _settle(self) -> None:
        """All GMIs of all nodes have started: what they share is theirs alone."""
        self._sharing.close()

    def _word(self, gmi: int, data: bytes) -> None:
        self._gmis[gmi].say(data)

    def _ask_to_end(self, gmi: int) -> None:
        self._gmis[gmi].ask_to_end()

    def _release(self, gmis: list[int]) -> None:
        self._instances.release([self._gmis[gmi].pid for gmi in gmis])

    def _end(self, gmi: int) -> Message:
        self._gmis[gmi].end()
        return {"say": "gone", "gmi": gmi}

    def _end_all(self) -> None:
        try:
            self._instances.release([gmi.pid for gmi in self._gmis.values()])
        finally:
            for gmi in self._gmis.values():
                gmi.end()
                gmi.close()
            self._gmis.clear()

    def _carry(self, gmi_id: int, gmi: GMIProcess, data: bytes) -> None:
        """A GMI's word to the launcher; what is to be proved is proved here. Where that fails the GMI does."""
        try:
            word = parse_message_to_launcher(decode(data))
            if isinstance(word, Attached) and not is_proxy(gmi_id):
                self._instances.prove_attached(self._ids.index(gmi_id), gmi.pid)
            elif isinstance(word, OnDevice):
                self._instances.prove_on_device(self._ids.index(gmi_id), gmi.pid)
                gmi.say(encode(Proved()))
                return
            elif isinstance(word, StoreFile) and self._mirror:
                self._mirror.carry(gmi_id, word.file)
                return
        except ValueError:
            pass  # the launcher knows what to say of that
        except OSError as error:
            self._fail(gmi_id, MachineError(f"it cannot be carried: {error}"))
            return
        except GmiError as error:
            self._fail(gmi_id, error)
            return
        self._say({"say": "said", "gmi": gmi_id}, data)

    def _fail(self, gmi_id: int, error: GmiError) -> None:
        """Say `Failed` for a GMI that does not know it: no more of it counts."""
        self._say({"say": "said", "gmi": gmi_id}, encode(Failed(str(error), error.exit_code, blames_peer=False)))
        self._say({"say": "line_ended", "gmi": gmi_id})


def _sees(folder: Path, token: str) -> bool:
    """Whether this host sees the run folder of the launcher, and not another one of that name."""
    try:
        return (folder / TOKEN).read_text() == token
    except OSError:
        return False


TOKEN = ".nodes"
"""A file of the run folder by which nodes know that they see the same one."""
