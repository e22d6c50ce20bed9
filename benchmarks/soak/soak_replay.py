"""Soak: checkpoints of replay that were altered or truncated; each must be refused in words, and change nothing.

    python benchmarks/soak/soak_replay.py --trials 2000

Takes half a minute on a core. Rings and tables, drawn from uniformly and by priorities, are saved. In each trial a file
of a checkpoint is cut, lengthened, removed, emptied, exchanged for another one, or has other bits or pieces; then it is
restored. That must raise `UsageError`, and the source must be as it was. What was not altered is restored at the end.
"""

import argparse
import hashlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.checkpoint import INDEX, ROWS, STATE, Source, flattened, restore, save
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.ring import Ring
from gmi_drl.replay.selectors import Fifo, Prioritized, Selector, Uniform
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from gmi_drl.replay.table_state import TableState

FILES = (INDEX, STATE, ROWS)
OBS, NUM_ENV, STEPS = 3, 4, 50
STEP = Signature([Field("obs", (OBS,)), Field("reward"), Field("terminated", (), torch.bool)])
SAMPLERS: dict[str, Callable[[], Selector]] = {"uniform": Uniform, "prioritized": Prioritized}


def made(kind: str, sampler: str, steps: int) -> Source:
    """A ring or a table with `steps` random steps."""
    if kind == "ring":
        ring = Ring(STEP, NUM_ENV, STEPS, sampler=SAMPLERS[sampler]())
        for _ in range(steps):
            ended = torch.rand(NUM_ENV) < 0.1
            step = {"obs": torch.rand(NUM_ENV, OBS), "reward": torch.rand(NUM_ENV), "terminated": ended}
            ring.add(step, ended, torch.ones(NUM_ENV, dtype=torch.bool))
        return ring
    storage = make_storage(STEP, NUM_ENV * STEPS, longest=2)
    options = {"sampler": SAMPLERS[sampler](), "remover": Fifo(), "limiter": MinSize(1), "storage": storage}
    table = Table("soak", STEP, max_size=NUM_ENV * STEPS // 2, **options)  # type: ignore[arg-type]
    stream = Stream(storage)
    for _ in range(steps):
        step = {"obs": torch.rand(NUM_ENV, OBS), "reward": torch.rand(NUM_ENV)}
        places = stream.append(step | {"terminated": torch.zeros(NUM_ENV, dtype=torch.bool)})
        table.insert(places, 1, torch.rand(NUM_ENV))
    return TableState(table, streams=[stream])


def digest(source: Source) -> str:
    """Of all that a checkpoint of the source would have."""
    found = hashlib.sha256()
    with source.snapshot() as state:
        tensors, numbers = flattened({name: part for name, part in state.items() if name != "rows"})
        rows = {f"rows.{name}": state["rows"][name].contiguous().cpu() for name in state["rows"]}
        for name, tensor in sorted((tensors | rows).items()):
            found.update(name.encode() + tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest() + str(sorted(numbers.items()))


def alter(content: bytes, other: bytes, chance: random.Random) -> tuple[str, bytes | None]:
    """Another content of a file, None for no file, and what was done."""
    place = chance.randrange(len(content))
    many = bytearray(content)
    for _ in range(chance.randrange(2, 50)):
        many[chance.randrange(len(many))] ^= chance.randrange(1, 256)
    end = chance.randrange(place, len(content)) + 1
    changes: dict[str, bytes | None] = {
        "cut": content[:place],
        "one bit": content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :],
        "many bytes": bytes(many),
        "lengthened": content + chance.randbytes(chance.randrange(1, 100)),
        "a piece lacks": content[:place] + content[end:],
        "a piece is zeros": content[:place] + bytes(end - place) + content[end:],
        "of another checkpoint": other,
        "empty": b"",
        "removed": None,
    }
    what, changed = chance.choice(list(changes.items()))
    return ("one bit", changes["one bit"]) if changed == content else (what, changed)


def trial(folder: Path, others: Path, source: Source, chance: random.Random) -> tuple[str, str | None]:
    """Alter a file, restore, and put the file back. Returns what was done, and what was wrong."""
    name = chance.choice(FILES)
    whole, before = (folder / name).read_bytes(), digest(source)
    what, changed = alter(whole, (others / name).read_bytes(), chance)
    if changed is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(changed)
    fault: str | None = "was not refused"
    try:
        restore(folder, source)
    except UsageError as error:
        fault = None if str(error).strip() else "was refused without words"
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    (folder / name).write_bytes(whole)
    if fault is None and digest(source) != before:
        fault = "changed the source"
    return f"{name}: {what}", fault and f"{what} in {name}: {fault}"


def main() -> int:
    """Try all. Returns 1 if one was not refused as promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    chance, began, done, faults = random.Random(given.seed), time.perf_counter(), Counter[str](), 0
    kinds = [(kind, sampler) for kind in ("ring", "table") for sampler in SAMPLERS]
    with TemporaryDirectory(prefix="gmi-drl-soak-") as created:
        for number, (kind, sampler) in enumerate(kinds):
            folder, others = Path(created, f"{number}"), Path(created, f"{number}-other")
            save(folder, made(kind, sampler, 2 * STEPS), 1)
            save(others, made(kind, sampler, STEPS // 2), 2)
            source = made(kind, sampler, 3)
            for _ in range(number, given.trials, len(kinds)):
                what, fault = trial(folder, others, source, chance)
                done[what] += 1
                if fault:
                    faults += 1
                    print(f"{kind}, {sampler}: {fault}", flush=True)
            if restore(folder, source) != 1:
                faults += 1
                print(f"{kind}, {sampler}: what was not altered is not restored")
    for what, count in sorted(done.items()):
        print(f"{count:5} {what}")
    print(f"{done.total()} altered checkpoints, {faults} faults, in {time.perf_counter() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
