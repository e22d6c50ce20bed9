"""The process of a GMI: `python -m gmi_drl.roles.main DESCRIPTOR NAME`, started by the launcher and nobody else.

The descriptor is that of a file with the order, `{"gmi": 0, ...}`; the name is for those who look at processes.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from gmi_drl.process_signals import DRAIN, leave_to_launcher

if TYPE_CHECKING:
    from gmi_drl.roles.launcher.connection import LauncherConnection
    from gmi_drl.roles.launcher.protocol import Failed

PR_SET_PDEATHSIG = 1

LONGEST = 4000
"""Characters of an error or a complaint to the launcher."""


def main() -> int:
    """Bind to the cores, then import torch, make the role, run it, and tell the launcher how it went."""
    with open(int(sys.argv[1])) as paper:
        order = json.load(paper)
    leave_to_launcher()
    if order["drains"]:
        signal.signal(DRAIN, drain)
    die_with(order["parent"], DRAIN if order["drains"] else signal.SIGKILL)
    _bind_to_cores()

    from gmi_drl.errors import GmiError
    from gmi_drl.roles.launcher.connection import LauncherConnection
    from gmi_drl.roles.launcher.protocol import Done

    line, worlds = LauncherConnection(order["line"]), list[Any]()
    _tell_warnings(line)
    try:
        line.deliver(Done(_run(order, line, worlds)))
    except Exception as error:
        if not isinstance(error, GmiError):
            traceback.print_exc()
        failed = describe(error)
        line.deliver(failed)
        _close(worlds, line)
        _finish(order)
        if failed.blames_peer:
            _end_at_once()
        return 1
    _close(worlds, line)
    _finish(order)
    return 0


def _tell_warnings(line: "LauncherConnection") -> None:
    """From now on tell the launcher of our warnings, too: nobody may look at the log of a run that goes on."""
    from gmi_drl.errors import GmiWarning
    from gmi_drl.roles.launcher.protocol import Warned

    show = warnings.showwarning

    def show_and_tell(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        show(message, category, *where, **more)
        if issubclass(category, GmiWarning):
            line.report(Warned(str(message)))

    warnings.showwarning = show_and_tell


def _close(worlds: list[Any], line: "LauncherConnection") -> None:
    """Close what the role has left open, and say so: the launcher waits for it, and ends a process that hangs."""
    from gmi_drl.roles.launcher.protocol import Closed

    complaint = ""
    if worlds:  # else nobody has imported this
        from gmi_drl.roles.worlds import close_worlds

        complaint = close_worlds(worlds)
    line.deliver(Closed(complaint[:LONGEST]))


def _finish(order: dict[str, Any]) -> None:
    """Wait for the GPU where the next to go may not leave anything in flight; the launcher knows what it needs."""
    if order["drains"]:
        from gmi_drl.comm.memory.cuda_context import finish

        finish()


def describe(error: Exception) -> "Failed":
    """An error as a word to the launcher. That a peer failed is the peer's error first of all."""
    from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError
    from gmi_drl.roles.launcher.protocol import Failed

    is_ours = isinstance(error, GmiError)
    return Failed(
        message=(str(error) if is_ours else f"{type(error).__name__}: {error}")[:LONGEST],
        exit_code=error.exit_code if isinstance(error, GmiError) else 1,
        blames_peer=isinstance(error, PeerDiedError | PeerSilentError),
    )


def _end_at_once() -> NoReturn:
    """With a failure, and without what an orderly end does: threads of gloo still stand in what the peer was lost in.

    Where these are ended in order, the C++ library aborts the process now and then.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _run(order: dict[str, Any], line: "LauncherConnection", worlds: list[Any]) -> Any:
    """Everything that needs torch. `worlds` gets the tasks that the role makes."""
    import torch

    from gmi_drl.comm.memory.cuda_context import make_context
    from gmi_drl.files import load_yaml
    from gmi_drl.layout.layout import HOLISTIC, Layout
    from gmi_drl.roles.launcher.protocol import Attached, OnDevice
    from gmi_drl.roles.launcher.resources import Resources
    from gmi_drl.roles.manager import GMI_manager

    layout = load_yaml(Layout, Path(order["layout"]))
    gmi = layout.gmis[order["gmi"]]
    torch.set_num_threads(gmi.torch_threads)
    torch.set_num_interop_threads(1)
    resources = Resources.from_order(order["resources"])
    folders = Path(order["run_folder"]), Path(order["meeting"])
    told = {name: order[name] for name in ("hang_s", "is_far", "predecessors", "agents_are_succeeded") if name in order}
    with GMI_manager(layout, gmi, *folders, line, resources, worlds=worlds, **told) as manager:
        manager.become_current()
        line.deliver(Attached())
        if layout.device_of(gmi.id).kind == "gpu":
            make_context()
            line.deliver(OnDevice())
            line.await_proof()
        role_class = load_role(order["role"])
        name = "holistic" if gmi.roles == HOLISTIC else "+".join(gmi.roles)
        return role_class(gmi.id, name, layout.device_of(gmi.id).index).GMI_run(**order["params"])


def load_role(location: str) -> Any:
    """The class at `file.py:Class` or `package.module:Class`.

    Raises:
        UsageError: if there is none.
    """
    from gmi_drl.errors import UsageError

    place, _, name = location.rpartition(":")
    try:
        module = _module_from_file(Path(place)) if place.endswith(".py") else _module_by_name(place)
        return getattr(module, name)
    except (ImportError, FileNotFoundError, AttributeError, ValueError) as error:
        raise UsageError(
            f"role {location!r} cannot be loaded, expected FILE.py:CLASS or MODULE:CLASS: {error}"
        ) from error


def _module_by_name(name: str) -> Any:
    """A module that is installed or, if none is, one in the working directory.

    Only then may anything be imported from there: roles of ours import what layouts and configurations name.
    """
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        sys.path.append(os.getcwd())
    return importlib.import_module(name)


def _module_from_file(path: Path) -> Any:
    """A file as a module, under a name of its own: a role in `random.py` replaces no other module."""
    name = f"gmi_drl_role_{path.stem}"
    sys.path.append(str(path.resolve().parent))  # for modules beside it
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _bind_to_cores() -> None:
    from gmi_drl.layout.environment import CPUS_VARIABLE

    os.sched_setaffinity(0, [int(cpu) for cpu in os.environ[CPUS_VARIABLE].split(",")])


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Be sent a signal when the launcher dies, however it dies."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)


def drain(number: int, frame: FrameType | None) -> None:
    """End this process when its GPU has done what it was told: a client of MPS that ends earlier may harm the others.

    Nothing else is waited for: a role may stand in anything, and who sent the signal may be dead.
    """
    signal.signal(DRAIN, signal.SIG_IGN)
    try:
        if "gmi_drl.comm.memory.cuda_context" in sys.modules:  # else it has told its GPU nothing yet
            from gmi_drl.comm.memory.cuda_context import finish

            finish()
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
