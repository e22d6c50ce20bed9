"""A temporary folder that goes with this process, also if it is killed."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gmi_drl.launch.processes.reaper import Reaper


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Create a folder for the time of a `with` block. If this process is killed, a reaper removes it.

    Args:
        prefix: What its name begins with.

    Raises:
        MachineError: if the reaper cannot be started.
    """
    with closing(Reaper()) as reaper, TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        reaper.watch_folder(folder)
        yield folder
