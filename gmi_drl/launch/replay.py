"""Replay servers as processes: one for each shard, which end with the process that started them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from select import POLLIN, poll
from selectors import EVENT_READ, DefaultSelector
from types import FrameType
from typing import NoReturn

from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.files import load_yaml
from gmi_drl.gmi.claims import claim, claims_folder, locked
from gmi_drl.roles.main import die_with

CLAIM = "replay-"
"""Before the address, in the name of the lock that a server holds."""

END_S = 600.0
"""Seconds for a server to write its last checkpoint."""


@dataclass(frozen=True)
class ReplayOptions:
    """How tables are served.

    Args:
        tables: The file that names them.
        host: Address to listen at.
        port: Of the first server; 0 for any.
        checkpoints: Folder of the checkpoints.
        checkpoint_every: Seconds between two of them.
        restore: The checkpoint to begin with.
        shards: How many servers there are.
    """

    tables: str
    host: str = "127.0.0.1"
    port: int = 0
    checkpoints: str | None = None
    checkpoint_every: float | None = None
    restore: str | None = None
    shards: int = 1


def serve_tables(options: ReplayOptions, token: str | None, tell: Callable[[str], None]) -> None:
    """Serve until a signal ends this process, or a server ends by itself.

    Args:
        options: Of all servers.
        token: Of their clients.
        tell: Gets the address of each server as soon as it listens.

    Raises:
        UsageError: if the options do not go together, the file or the checkpoint is wrong.
        MachineError: if a server cannot listen, or lacks memory.
        GmiError: if a server of several ended, or the only one by a fault of ours.
    """
    shards = options.shards
    if options.checkpoint_every is not None and options.checkpoints is None:
        raise UsageError("--checkpoint-every needs a folder: --checkpoints FOLDER")
    if options.restore is not None:
        from gmi_drl.replay.server.checkpoints import shards_in

        if not (found := shards_in(Path(options.restore))):
            raise UsageError(f"{options.restore}: there is no checkpoint of a replay server in it")
        if found != shards:
            raise UsageError(f"{options.restore} is of {found} servers, not {shards}: give --shards {found}")
    if shards == 1:
        _serve(options, 0, token, tell)
        return
    with ExitStack() as stack:
        children = []
        for shard in range(shards):
            children.append(_Shard(options, shard, token))
            stack.callback(children[-1].end)
        for address in _addresses(children):
            tell(address)
        raise GmiError(f"replay server {_first_end(children)} of {shards} has ended: see above")


def running_servers() -> list[str]:
    """The addresses of this user's servers on this machine that `gmi-drl replay serve` has started."""
    found = []
    for path in sorted(claims_folder().glob(f"{CLAIM}*")):
        with suppress(OSError):
            if locked(path):
                found.append(path.name[len(CLAIM) :])
    return found


class _Shard:
    """The process of a server."""

    def __init__(self, options: ReplayOptions, shard: int, token: str | None) -> None:
        port = options.port + shard if options.port else 0
        self.shard = shard
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gmi_drl.launch.replay", str(shard), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # the terminal's Ctrl-C is for the process that ends them in order
        )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError), self.process.stdin as pipe:  # others can see arguments, so the token is not one
            pipe.write(json.dumps([asdict(options) | {"port": port}, token]).encode())

    def address(self) -> str:
        """Where it listens, as soon as it does.

        Raises:
            GmiError: if it has ended; it has said why.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().strip()
        if not line:
            code = self.process.wait()
            kinds = {2: UsageError, 4: MachineError}
            raise kinds.get(code, GmiError)(f"replay server {self.shard} did not start: see above")
        return line

    def end(self) -> None:
        """Let it write a checkpoint and end."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        try:
            self.process.wait(END_S)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise


def _addresses(children: list[_Shard]) -> Iterator[str]:
    """Where the servers listen, in their order, as soon as they do. What they restore may take as long as it needs.

    Raises:
        GmiError: as soon as one has ended (`_Shard.address`).
    """
    found = dict[int, str]()
    with DefaultSelector() as waiting:
        for child in children:
            assert child.process.stdout is not None
            waiting.register(child.process.stdout, EVENT_READ, child)
        for child in children:
            while child.shard not in found:
                for key, _ in waiting.select():
                    found[key.data.shard] = key.data.address()
                    waiting.unregister(key.fileobj)
            yield found[child.shard]


def _first_end(children: list[_Shard]) -> int:
    """Wait until one of the servers ends. Returns which."""
    polling = poll()
    descriptors = {os.pidfd_open(child.process.pid): child for child in children}
    try:
        for descriptor in descriptors:
            polling.register(descriptor, POLLIN)
        return descriptors[polling.poll()[0][0]].shard
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(options: ReplayOptions, shard: int, token: str | None, tell: Callable[[str], None]) -> None:
    import torch

    from gmi_drl.replay.server.server import Server
    from gmi_drl.replay.server.settings import ReplayTables

    torch.set_num_threads(1)
    made = load_yaml(ReplayTables, Path(options.tables)).make()
    folder = Path(options.checkpoints) if options.checkpoints else None
    restored = Path(options.restore) if options.restore else None
    serving = Server(made, options.port, options.host, token, folder, shard, options.shards, restored)
    with ExitStack() as held, serving as server:
        held.enter_context(claim([f"{CLAIM}{server.address}"], "gmi-drl replay serve"))
        tell(server.address)
        try:
            while not server.wait(options.checkpoint_every):
                try:
                    server.checkpoint()
                except GmiError as error:  # the disk may have room again at the next one
                    print(f"gmi-drl: {error}", file=sys.stderr, flush=True)
        finally:
            if folder is not None and not server.wait(0):
                server.checkpoint()
        if (failure := server.failure) is not None:
            text = f"replay server {server.address} ended by a fault of ours ({type(failure).__name__}: {failure})"
            raise GmiError(f"{text}: what came after its last checkpoint is lost") from failure


def _end_once(number: int, frame: FrameType | None) -> NoReturn:
    """End at the first SIGTERM. More may come, from who stops all processes, and must not break the last checkpoint."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def main() -> NoReturn:
    """The process of a shard: its arguments are its number and its parent, its input options and token in JSON."""
    shard, parent = map(int, sys.argv[1:])
    die_with(parent, signal.SIGTERM)
    signal.signal(signal.SIGTERM, _end_once)
    options, token = json.loads(sys.stdin.read())
    try:
        _serve(ReplayOptions(**options), shard, token, lambda line: print(line, flush=True))
    except GmiError as error:
        print(f"gmi-drl: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)
    sys.exit(0)


if __name__ == "__main__":
    main()
