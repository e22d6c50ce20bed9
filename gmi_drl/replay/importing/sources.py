"""Which reader a file or a folder is for."""

from collections.abc import Iterator
from pathlib import Path

from gmi_drl.errors import UsageError
from gmi_drl.replay.files.index import INDEX, MARK
from gmi_drl.replay.importing.d4rl import NAMES, episodes_of_d4rl
from gmi_drl.replay.importing.episodes import Episode
from gmi_drl.replay.importing.hdf5 import names_in, opened
from gmi_drl.replay.importing.minari import EPISODE, episodes_of_minari
from gmi_drl.replay.importing.ours import episodes_of_experience

HDF5 = (".hdf5", ".h5")


def episodes_in(source: Path) -> Iterator[Episode]:
    """The episodes of a folder of `serve --experience`, a folder or a file of Minari, or a file of D4RL.

    Raises:
        UsageError: if it is none of them, or it is broken.
        MachineError: if what reads it is not installed.
    """
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    if source.is_dir():
        if (source / INDEX).exists() or (source / MARK).exists():
            return episodes_of_experience(source)
        files = sorted(path for path in (source, source / "data") for path in path.glob("*") if path.suffix in HDF5)
        if files:
            return episodes_of_minari(files)
        raise UsageError(f"{source} is no folder with experience ({INDEX}), and has no HDF5 files of Minari")
    with opened(source) as file:
        names = names_in(file)
    if any(EPISODE.fullmatch(name) for name in names):
        return episodes_of_minari([source])
    if set(NAMES) & set(names):
        return episodes_of_d4rl(source)
    told = ", ".join(names[:10]) or "nothing"
    raise UsageError(f"{source} has {told}: neither episodes as Minari's nor arrays as D4RL's ({', '.join(NAMES)})")
