"""Soak: HDF5 files and `.replay` folders that were altered or truncated; each must be imported or refused in words.

    python benchmarks/soak/alter_imports.py --trials 3000

Takes ten minutes on a core; needs the extra [offline]. Files of Minari and D4RL are cut, get other bits, zeros, pieces
of each other. Each is imported in a child process, in which h5py may crash. An import that is refused must leave no
folder, and one that is not must leave a folder that can be read; other exceptions and crashes are counted and told.
Folders with altered files must be refused.
"""

import argparse
import faulthandler
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py

sys.path.append(str(Path(__file__).parents[2] / "tests" / "replay" / "importing"))

from made_episodes import made_episodes, write_d4rl, write_minari

from gmi_drl.errors import GmiError
from gmi_drl.replay import EpisodeSet, import_episodes
from gmi_drl.replay.importing.sources import episodes_in

FILES = ("replay.json", "state.safetensors", "rows.replay")
READ, REFUSED, LEFT, RAISED = 10, 11, 12, 13
"""Exit codes of a child."""

NAMES = {READ: "imported", REFUSED: "refused", LEFT: "left a folder", RAISED: "another exception"}
DEADLINE_S = 60


def altered(content: bytes, other: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Another content of a file, and what was done."""
    place = chance.randrange(len(content))
    end = chance.randrange(place, min(len(content), place + 400)) + 1
    many = bytearray(content)
    for _ in range(chance.randrange(2, 60)):
        many[chance.randrange(len(many))] ^= chance.randrange(1, 256)
    changes = {
        "cut": content[:place],
        "one bit": content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :],
        "many bytes": bytes(many),
        "zeros": content[:place] + bytes(end - place) + content[end:],
        "piece of another": content[:place] + other[place:end] + content[end:],
        "longer": content + chance.randbytes(chance.randrange(1, 100)),
        "early bits": bytes([content[0]])
        + bytes(one ^ (chance.random() < 0.02) for one in content[1:2000])
        + content[2000:],
    }
    what = chance.choice(sorted(changes))
    return what, changes[what]


def outcome(source: Path, into: Path, skip_broken: bool) -> int:
    """Import in a child process. Returns its exit code, or minus the signal that ended it."""
    if child := os.fork():
        deadline = time.monotonic() + DEADLINE_S
        while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, 9)
            time.sleep(0.002)
        return os.waitstatus_to_exitcode(found[1])
    faulthandler.disable()
    code = RAISED
    try:
        import_episodes(episodes_in(source), into, skip_broken=skip_broken)
        code = READ if len(EpisodeSet(into)) else LEFT
    except GmiError:
        code = LEFT if into.exists() else REFUSED
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def alter_files(trials: int, chance: random.Random, folder: Path) -> Counter[str]:
    """Alter files of both kinds."""
    contents = []
    for number, write in enumerate((write_minari, write_d4rl)):
        write(folder / f"{number}.hdf5", made_episodes(4), h5py)
        contents.append((folder / f"{number}.hdf5").read_bytes())
    seen, path = Counter[str](), folder / "a.hdf5"
    for trial in range(trials):
        which = trial % 2
        what, content = altered(contents[which], contents[1 - which], chance)
        path.write_bytes(content)
        into = folder / f"{trial}.replay"
        code = outcome(path, into, chance.random() < 0.5)
        told = NAMES.get(code, f"signal {-code}")
        seen[told] += 1
        if code not in (READ, REFUSED):
            kept = folder.parent / f"alter-imports-{trial}.hdf5"
            kept.write_bytes(content)
            print(f"{kept}: {what}: {told}", flush=True)
        if trial % 500 == 499:
            print(f"{trial + 1} files: {dict(seen)}", flush=True)
        if into.exists():
            for file in into.iterdir():
                file.unlink()
            into.rmdir()
    return seen


def alter_folders(trials: int, chance: random.Random, folder: Path) -> Counter[str]:
    """Alter files of a `.replay` folder."""
    import_episodes(made_episodes(4), folder / "b.replay")
    contents = {name: (folder / "b.replay" / name).read_bytes() for name in FILES}
    seen = Counter[str]()
    for _ in range(trials):
        name = chance.choice(FILES)
        what, content = altered(contents[name], contents[chance.choice(FILES)], chance)
        if content == contents[name]:
            continue
        (folder / "b.replay" / name).write_bytes(content)
        try:
            EpisodeSet(folder / "b.replay")
            seen["READ"] += 1
            print(f"{name}: {what}: was read", flush=True)
        except GmiError:
            seen["refused"] += 1
        (folder / "b.replay" / name).write_bytes(contents[name])
    return seen


def main() -> int:
    """Run the trials. Returns 1 if one did what it must not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with TemporaryDirectory(prefix="gmi-drl-alter-") as name:
        files = alter_files(given.trials, chance, Path(name))
        folders = alter_folders(given.trials // 3, chance, Path(name))
    print(f"files: {dict(files)}; folders: {dict(folders)}")
    return int(bool(set(files) - {"imported", "refused"} or set(folders) - {"refused"}))


if __name__ == "__main__":
    sys.exit(main())
