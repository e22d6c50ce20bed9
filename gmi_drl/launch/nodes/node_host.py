"""The part of a layout on a supervisor's host: the cut devices, and the GMIs that run on them."""

import os
import selectors
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from gmi_drl.comm.links.control import Message
from gmi_drl.comm.links.handshake import RankAddresses
from gmi_drl.errors import GmiError, MachineError
from gmi_drl.files import parse
from gmi_drl.gmi import Instances, claimed
from gmi_drl.hardware import host_memory
from gmi_drl.launch.nodes.folder_upload import FolderUpload
from gmi_drl.launch.processes.gmi_process import CHILD, GMIProcess, processes_here
from gmi_drl.launch.processes.gmi_processes import DRAIN_S
from gmi_drl.launch.processes.gmi_restarts import kept_open
from gmi_drl.launch.processes.temporary_folder import temporary_folder
from gmi_drl.launch.shared_resources import HostResources
from gmi_drl.layout.environment import without_mps
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import proxy_processes
from gmi_drl.roles.launcher.connection import decode, encode
from gmi_drl.roles.launcher.protocol import Attached, Failed, OnDevice, Proved, StoreFile, parse_message_to_launcher
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.process_names import gmi_of, is_proxy

Send = Callable[..., None]

PROXY_MODULE = "gmi_drl.roles.decoupled.proxy_main"
"""The module of a process of proxies."""


class Host:
    """Executes a launcher's messages: `open`, `take` files, `share`, `set_addresses`, `start`, `settle` and others.

    Args:
        node: The node's name in the layout.
        address: The address by which other nodes reach this host.
        selector: Gets the connections and ends of GMIs registered, for `forward`.
        send: Sends a message to the launcher.
    """

    def __init__(self, node: str, address: str, selector: selectors.BaseSelector, send: Send) -> None:
        self._node, self._address, self._selector, self._send = node, address, selector, send
        self._life, self._sharing = ExitStack(), ExitStack()
        self._gmis: dict[int, GMIProcess] = {}  # and proxies, by number
        self._copy: FolderUpload | None = None
        self._kept: Mapping[int, Resources] = {}  # of GMIs that may be started again
        self._handlers: Mapping[str, Callable[..., Message | None]] = {
            "open": self._open,
            "take": self._take,
            "share": self._share,
            "set_addresses": self._set_addresses,
            "start": self._start,
            "settle": self._settle,
            "word": self._word,
            "ask_to_end": self._ask_to_end,
            "show_stacks": self._show_stacks,
            "release": self._release,
            "end": self._end,
        }

    def do(self, message: Message, data: bytes) -> Message | None:
        """Execute a message. Returns the response, if there is one.

        Raises:
            GmiError: to be sent as the response.
        """
        given = {**message, "data": data} if data else dict(message)
        return self._handlers[given.pop("type")](**given)

    def forward(self, gmi_id: int, has_ended: bool) -> None:
        """Forward the messages of a GMI; if it has ended, report its exit code after them."""
        gmi = self._gmis[gmi_id]
        while (data := gmi.receive()) is not None:
            if not data:
                if not has_ended:
                    self._selector.unregister(gmi.connection_fd)
                    self._send({"type": "connection_ended", "gmi": gmi_id})
                break
            self._forward_one(gmi_id, gmi, data)
        if has_ended:
            self._selector.unregister(gmi.exit_fd)
            if self._copy:
                self._copy.send_log(gmi_id)  # its last output first
            self._send({"type": "ended", "gmi": gmi_id, "code": gmi.exit_code(0)})

    def close(self) -> None:
        """End everything. GMIs that drain have `DRAIN_S`."""
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
        """Claim and cut the devices. The response has the bytes of memory that are free here."""
        self._layout, home = parse(Layout, dict(layout), "layout"), Path(run_folder)
        os.sched_setaffinity(0, cpus)
        part, self._ids = self._layout.part_on(self._node)
        with ExitStack() as undone:
            if not claims:  # another supervisor of this run holds the devices of this machine
                own = undone.enter_context(temporary_folder("gmi-drl-claims-"))
                os.environ["GMI_DRL_CLAIMS"] = str(own)
            claim = undone.enter_context(claimed([part], purpose, apply_mig=apply_mig))
            self._instances: Instances = undone.enter_context(claim.cut(part))
            if not _sees(home, token):
                self._copy = undone.enter_context(FolderUpload(home, self._send, begins_with))
            self._starter = undone.enter_context(processes_here())
            undone.callback(self._end_all)
            self._life = undone.pop_all()
        memory = {
            "free": host_memory.available_bytes(),
            "memory_group": host_memory.memory_group(),
            "free_of_machine": host_memory.machine_bytes(),
        }
        return {"type": "opened", "drains": self._instances.drains, "sees_folder": self._copy is None, **memory}

    def _take(self, file: str, data: bytes = b"") -> None:
        """Append to a file of the local copy of the run folder."""
        assert self._copy is not None
        self._copy.take(file, data)

    def _here(self, path: str) -> Path:
        """The path on this host for a path within the run folder."""
        return self._copy.here(path) if self._copy else Path(path)

    def _share(self, slot_bytes: int, links: bool) -> Message:
        """Create what the GMIs share. The response has the addresses of the ranks here."""
        resources = HostResources(self._layout, slot_bytes, self._node, self._address, links=links)
        self._resources = self._sharing.enter_context(closing(resources))
        return {"type": "shared", "addresses": self._resources.addresses}

    def _set_addresses(self, addresses: Mapping[str, Any]) -> None:
        """Store the addresses of all ranks on all nodes."""
        self._resources.set_addresses(
            {
                name: RankAddresses(tuple((host, port) for host, port in ranks), token)
                for name, (ranks, token) in addresses.items()
            }
        )

    def _start(self, order: dict[str, Any], log: str, environment: Mapping[str, str | None]) -> Message:
        """Start a GMI or a process of proxies. `environment` overrides this host's variables and the backend's."""
        number: int = order["gmi"]
        gmi_id = gmi_of(number)
        ours = {} if is_proxy(number) else self._instances.environment(self._ids.index(gmi_id))
        wanted = {**without_mps(os.environ), **ours, **environment}
        complete = {name: value for name, value in wanted.items() if value is not None}
        for name in ("layout", "run_folder", "rendezvous_folder"):
            order[name] = str(self._here(order[name]))
        order["is_remote"] = self._copy is not None
        if self._copy:
            RunFolder(Path(order["run_folder"])).checkpoints.mkdir(exist_ok=True)  # where one of several policies saves
        if is_proxy(number):
            gmis = proxy_processes(self._layout)[gmi_id]
            order |= {"gmi": gmi_id, "gmis": gmis, "home": self._node, "drains": False}  # it has no device
            module, resources = PROXY_MODULE, self._resources.of_proxies(gmis)
        else:
            module, resources = CHILD, self._kept.get(gmi_id) or self._resources[gmi_id]
        if number in self._gmis:  # a process before this one
            self._end(number)
            self._gmis.pop(number).close()
        started = self._starter(order, complete, self._here(log), resources, module=module)
        if self._copy:
            self._copy.watch_log(number)
        self._gmis[number] = started
        self._selector.register(started.connection_fd, selectors.EVENT_READ, (number, False))
        self._selector.register(started.exit_fd, selectors.EVENT_READ, (number, True))
        return {"type": "started", "gmi": number, "pid": started.pid}

    def _settle(self, restartable: list[int]) -> None:
        """Close our copies of what the GMIs share, since all have started, but for what a restarted GMI inherits."""
        ours = {number: self._resources[number] for number in restartable if number in self._ids}
        try:
            self._kept = self._life.enter_context(kept_open(ours, ours))
        finally:
            self._sharing.close()

    def _word(self, gmi: int, data: bytes) -> None:
        self._gmis[gmi].send(data)

    def _ask_to_end(self, gmi: int) -> None:
        self._gmis[gmi].ask_to_end()

    def _show_stacks(self, gmi: int) -> None:
        self._gmis[gmi].show_stacks()

    def _release(self, gmis: list[int]) -> None:
        self._instances.release({gmi: self._gmis[gmi].pid for gmi in gmis})

    def _end(self, gmi: int) -> Message:
        """End a GMI. Of what it has sent nothing comes behind the response: then its successor has its number."""
        self._gmis[gmi].end()
        self._ignore(gmi)
        if self._copy:
            self._copy.send_log(gmi)
        return {"type": "gone", "gmi": gmi}

    def _ignore(self, number: int) -> None:
        for descriptor in (self._gmis[number].connection_fd, self._gmis[number].exit_fd):
            with suppress(KeyError):  # unregistered when it was seen to end
                self._selector.unregister(descriptor)

    def _end_all(self) -> None:
        try:
            self._instances.release({number: gmi.pid for number, gmi in self._gmis.items()})
        finally:
            for gmi in self._gmis.values():
                gmi.end()
                gmi.close()
            self._gmis.clear()

    def _forward_one(self, gmi_id: int, gmi: GMIProcess, data: bytes) -> None:
        """Forward a GMI's message, or handle it here: checks of its share, and files. If that fails, the GMI fails."""
        try:
            word = parse_message_to_launcher(decode(data))
            if isinstance(word, Attached) and not is_proxy(gmi_id):
                self._instances.prove_attached(self._ids.index(gmi_id), gmi.pid)
            elif isinstance(word, OnDevice):
                self._instances.prove_on_device(self._ids.index(gmi_id), gmi.pid)
                gmi.send(encode(Proved()))
                return
            elif isinstance(word, StoreFile) and self._copy:
                self._copy.send_file(gmi_id, Path(word.file))
                return
        except ValueError:
            pass  # the launcher reports it
        except OSError as error:
            self._fail(gmi_id, MachineError(f"its file cannot be sent: {error}"))
            return
        except GmiError as error:
            self._fail(gmi_id, error)
            return
        self._send({"type": "said", "gmi": gmi_id}, data)

    def _fail(self, gmi_id: int, error: GmiError) -> None:
        """Report that a GMI has failed, which it does not know. Its further messages are ignored."""
        self._send({"type": "said", "gmi": gmi_id}, encode(Failed(str(error), error.exit_code, blames_peer=False)))
        self._send({"type": "connection_ended", "gmi": gmi_id})


def _sees(folder: Path, token: str) -> bool:
    """Whether this host sees the launcher's run folder, and not another one with the same path."""
    try:
        return (folder / TOKEN).read_text() == token
    except OSError:
        return False


TOKEN = ".nodes"
"""A file in the run folder by which nodes recognise that they see the same one."""
