"""Makes a folder of a new run or sweep that no other start has."""

from contextlib import suppress
from pathlib import Path

from gmi_drl.errors import MachineError


def first_free(usual: Path) -> Path:
    """Make a new folder: `usual`, or if that is there already `usual-2` and so on.

    Raises:
        MachineError: if it cannot be made.
    """
    try:
        usual.parent.mkdir(parents=True, exist_ok=True)
        number, path = 1, usual
        while True:
            with suppress(FileExistsError):
                path.mkdir()
                return path
            number += 1
            path = usual.with_name(f"{usual.name}-{number}")
    except OSError as error:
        raise MachineError(f"{usual}: the folder cannot be made: {error.strerror}") from None
