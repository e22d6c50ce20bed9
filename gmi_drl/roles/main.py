"""The process of a GMI: `python -m gmi_drl.roles.main DESCRIPTOR NAME`, started by the launcher only.

DESCRIPTOR is an open file with the order as JSON, `{"gmi": 0, ...}`. NAME shows in lists of processes, and is not read.
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

from gmi_drl.processes.signals import DRAIN, leave_to_launcher, show_stacks_on_signal

if TYPE_CHECKING:
    from gmi_drl.roles.launcher.connection import LauncherConnection
    from gmi_drl.roles.launcher.protocol import Failed

PR_SET_PDEATHSIG = 1

OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")
"""Names of errors of torch and Python: of torch, since it may not be imported yet."""

FEWER = "take fewer environments (--num-env) or GMIs (--gmis-per-gpu); `gmi-drl plan` finds out how many fit"

LONGEST = 4000
"""Characters of an error message to the launcher, at most."""


def main() -> int:
    """Bind to the cores, then import torch, make the role, run it, and send the launcher its result or error."""
    with open(int(sys.argv[1])) as order_file:
        order = json.load(order_file)
    leave_to_launcher()
    show_stacks_on_signal()
    if order["drains"]:
        signal.signal(DRAIN, drain)
    die_with(order["parent"], DRAIN if order["drains"] else signal.SIGKILL)
    _bind_to_cores()

    from gmi_drl.errors import GmiError
    from gmi_drl.roles.launcher.connection import LauncherConnection
    from gmi_drl.roles.launcher.protocol import Done

    launcher, tasks = LauncherConnection(order["launcher"]), list[Any]()
    _send_warnings(launcher)
    try:
        launcher.deliver(Done(_run(order, launcher, tasks)))
    except Exception as error:
        if not isinstance(error, GmiError):
            traceback.print_exc()
        failed = describe(error)
        launcher.deliver(failed)
        _close(tasks, launcher)
        _finish(order)
        if failed.blames_peer:
            _exit_at_once()
        return 1
    _close(tasks, launcher)
    _finish(order)
    return 0


def _send_warnings(launcher: "LauncherConnection") -> None:
    """Send our warnings to the launcher, too, from now on: few read the log of a run that goes on."""
    from gmi_drl.errors import GmiWarning
    from gmi_drl.roles.launcher.protocol import Warned

    show = warnings.showwarning

    def show_and_send(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        show(message, category, *where, **more)
        if issubclass(category, GmiWarning):
            launcher.report(Warned(str(message)))

    warnings.showwarning = show_and_send


def _close(tasks: list[Any], launcher: "LauncherConnection") -> None:
    """Close the role's tasks and send `Closed`: the launcher waits for it, and kills a process that hangs here."""
    from gmi_drl.roles.launcher.protocol import Closed

    complaint = ""
    if tasks:  # else the module, which imports torch, may not be loaded
        from gmi_drl.roles.open_tasks import close_tasks

        complaint = close_tasks(tasks)
    launcher.deliver(Closed(complaint[:LONGEST]))


def _finish(order: dict[str, Any]) -> None:
    """Wait for the GPU if this process must leave no work in flight there, as the order says."""
    if order["drains"]:
        from gmi_drl.comm.memory.cuda_context import finish

        finish()


def describe(error: Exception) -> "Failed":
    """An error as a message to the launcher. `blames_peer`: the error of the peer that ended or is silent says more."""
    from gmi_drl.errors import GmiError, MachineError, PeerDiedError, PeerSilentError
    from gmi_drl.roles.launcher.protocol import Failed

    is_ours = isinstance(error, GmiError)
    if lack := None if is_ours else _lack_of_memory(error):
        told = str(error) if error is lack else f"{type(error).__name__}: {error}"
        message = f"out of memory ({told[: LONGEST // 2]}): {FEWER}"
        return Failed(message, MachineError.exit_code, blames_peer=False)
    return Failed(
        message=(str(error) if is_ours else f"{type(error).__name__}: {error}")[:LONGEST],
        exit_code=error.exit_code if isinstance(error, GmiError) else 1,
        blames_peer=isinstance(error, PeerDiedError | PeerSilentError),
        peer_ended=isinstance(error, PeerDiedError),
    )


def _lack_of_memory(error: BaseException | None) -> BaseException | None:
    """The lack of memory that an error tells of, or that led to it, as in `torch.save`; None if there was none."""
    while error is not None and type(error).__name__ not in OUT_OF_MEMORY:
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error


def _exit_at_once() -> NoReturn:
    """Exit with status 1 and no cleanup: threads of gloo still wait for the lost peer.

    When Python ends them in order, the C++ library sometimes aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _run(order: dict[str, Any], launcher: "LauncherConnection", tasks: list[Any]) -> Any:
    """Make and run the role. All that imports torch happens here. The tasks that the role opens go into `tasks`."""
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
    folders = Path(order["run_folder"]), Path(order["rendezvous_folder"])
    names = ("hang_s", "is_remote", "predecessors", "agents_are_restarted")
    settings = {name: order[name] for name in names if name in order}
    with GMI_manager(layout, gmi, *folders, launcher, resources, tasks=tasks, **settings) as manager:
        manager.become_current()
        launcher.deliver(Attached())
        if layout.device_of(gmi.id).kind == "gpu":
            make_context()
            launcher.deliver(OnDevice())
            launcher.await_proof()
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
    """An installed module or, if there is none of this name, one in the working directory.

    Only then is the working directory searched: our own roles import modules that layouts and configurations name.
    """
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        sys.path.append(os.getcwd())
    return importlib.import_module(name)


def _module_from_file(path: Path) -> Any:
    """A file as a module, whose name gets a prefix, so that a role in `random.py` replaces no other module."""
    name = f"gmi_drl_role_{path.stem}"
    sys.path.append(str(path.resolve().parent))  # for imports of modules in the same folder
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
    """Have the kernel send this process a signal when its parent, the launcher, dies in any way."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)


def drain(number: int, frame: FrameType | None) -> None:
    """Signal handler: end this process once its GPU is idle. A client of MPS that ends earlier may harm the others.

    It waits for nothing else: the role may be blocked anywhere, and the sender of the signal may be dead.
    """
    signal.signal(DRAIN, signal.SIG_IGN)
    try:
        if "gmi_drl.comm.memory.cuda_context" in sys.modules:  # else it has not used its GPU yet
            from gmi_drl.comm.memory.cuda_context import finish

            finish()
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
