"""The page of exit codes and error classes."""

import inspect

from gmi_drl import errors
from tools.site.markdown import page, table

CODES = {
    0: "done",
    1: "failed while running",
    2: "wrong usage: a command, a file or a value",
    3: "no feasible plan",
    4: "this machine cannot: a package, a device, room or permission is missing",
    5: "the layout does not match this machine",
    6: "a benchmark is below its bound, or its result is stale",
    7: "a device or a folder is in use by another process",
    129: "the terminal was lost; a checkpoint is saved",
    130: "Ctrl-C; a checkpoint is saved",
    143: "SIGTERM; a checkpoint is saved",
}
REMEDIES = {
    "GmiError": "The message names the GMI, its log and the remedy. Resume from the last checkpoint",
    "UsageError": "Change what the message names: all mistakes of a file are told at once, with the nearest known name",
    "NoFeasiblePlanError": "Fewer environments, fewer GMIs or another backend: the message says what lacked",
    "MachineError": "Install or free what the message names; `gmi-drl doctor` shows all",
    "MissingNodeError": "Start the machine again, or train without it: `--restarts N`",
    "LayoutMismatchError": "Plan anew on this machine",
    "InUseError": "Wait for the process that the message names, or stop it",
    "ComparisonFailedError": "Read the case's page; `make measure` measures stale results again",
    "GmiDiedError": "Read the log that it names; `--restarts N` restarts",
    "PeerDiedError": "Read the log of the GMI that it names: that one failed first",
    "PeerSilentError": "A GMI hangs: see its log. Raise `hang_s` if its steps may take that long",
    "GmiWarning": "A warning: the run goes on",
}


def error_classes() -> list[type]:
    """All classes of `gmi_drl.errors`, in their order."""
    found = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__]
    return sorted(found, key=lambda cls: inspect.getsourcelines(cls)[1])


def errors_page() -> str:
    """A table of exit codes and one of classes, each with what to do."""
    rows = [
        (f"`{name}`", str(getattr(cls, "exit_code", "")), str(cls.__doc__).partition("\n")[0], REMEDIES[name])
        for name, cls in ((cls.__name__, cls) for cls in error_classes())
    ]
    codes = [(str(code), text) for code, text in CODES.items()]
    return page(
        "Exit codes and errors",
        "Messages say what happened, with numbers, and what to do. `GMI_DRL_DEBUG=1` shows where a fault of ours was.",
        f"\n## Exit codes\n\n{table(('code', 'meaning'), codes)}",
        f"\n## Classes\n\nAll in `gmi_drl.errors`; the exit code is that of a command that ends by it.\n\n"
        f"{table(('class', 'exit code', 'meaning', 'what to do'), rows)}",
    )
