"""The stages of `gpu_day.py` in their order, for a GPU and for a rehearsal, with their expected durations.

The stages of the first three calls are listed here, the later ones in `gpu_day_later.py`.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import stages
from gpu_day_later import LATER
from gpu_day_parts import Part
from stages import Stage

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REHEARSED = HERE.parent / "results" / "gpu_day_rehearsal.jsonl"
"""The rehearsals on cores: a line of JSON for each stage."""
REHEARSAL_S = 300.0
"""The deadline of any stage in a rehearsal, which other work may slow down."""

FULL = {
    "train": "gmi-drl train --task ant --set physics=warp",
    "native": "gmi-drl train --task ant --set physics=native",
    "physics": "warp",
    "few": "512",
    "many": "4096",
    "two": "2",
    "four": "4",
    "walk": "512,2048,8192,16384,32768,65536",
    "short_walk": "2048,8192,32768",
    "total": "2048,8192,65536",
    "totals": "2048,8192,32768",
    "long": "3",
    "iterations": "30",
    "more": "40",
    "budget": "60",
    "learning_s": "45",
    "mps": "mps",
    "ipc": "IPC",
    "case": "gmi-drl bench",
    "kept": "-o {results}/{stage}.json",
    "kept_once": "--repeats 1 -o {results}/{stage}.json",
}
SMALL = {
    "train": "gmi-drl train --task ant --set physics=native",
    "native": "gmi-drl train --task ant --set physics=native",
    "physics": "native",
    "few": "8",
    "many": "16",
    "two": "2",
    "four": "2",
    "walk": "8,16",
    "short_walk": "8,16",
    "total": "16",
    "totals": "16",
    "long": "0.1",
    "iterations": "2",
    "more": "3",
    "budget": "20",
    "learning_s": "2",
    "mps": "process",
    "ipc": "MPR-gloo",
    "case": "python {ask} case",
    "kept": "",
    "kept_once": "",
}
"""Sizes for two cores without a GPU: MPS becomes plain sharing, IPC a sum through the host, and cases run quickly."""

TESTS = "python -m pytest -m gpu -rfs --continue-on-collection-errors -p no:cacheprovider"


def _question(name: str, about: str, gpu_s: float, asked: str) -> Part:
    return Part(name, about, gpu_s, (f"python {{ask}} {asked}",))


def _two_native(name: str, way: str, method: str, gpu_s: float) -> Part:
    """A training on two GMIs, whose replicas are compared at each checkpoint."""
    return Part(
        f"native_{name}",
        f"2 GMIs by {name}",
        gpu_s,
        (
            f"python {{asks}} layout two.yaml TCG_EX ant 1 2:{way}:{method} {{few}}",
            "gmi-drl train two.yaml --set physics=native --set checkpoint_every=5 --iterations {iterations}"
            " --run-dir run",
        ),
    )


FIRST = (
    Part("machine", "the driver, where MPS's program is, doctor", 20, ("python {ask} machine", "gmi-drl doctor")),
    _question("question_1", "the MPS daemon in a private directory, and its static partitions", 40, "daemon"),
    _question("question_3_torch", "memory shared between processes by torch (CUDA IPC)", 18, "ipc ipc"),
    _question("registration", "does CUDA register memory that processes share", 6, "registration"),
    Part("tests", "the tests of a GPU; those of Warp are skipped where it is missing", 80, (f"{TESTS} {{tests}}",)),
    Part(
        "native",
        "physics on the cores, learning on the GPU: one GMI, and how it goes on from its checkpoint",
        20,
        (
            "{native} --gmis-per-gpu 1 --num-env {few} --iterations {iterations} --run-dir run",
            "gmi-drl train --resume run --iterations {more}",
        ),
    ),
    _two_native("shm", "process", "MPR-shm", 12),
    _two_native("ipc", "process", "{ipc}", 12),
    _two_native("mps", "{mps}", "{ipc}", 16),
    _question("question_8", "latency of our own reductions: 0.1, 0.5, 1.5 M parameters, k = 2, 4, 8", 60, "latency"),
    _question("question_7", "utilisation by GPM: is it permitted", 5, "gpm"),
    _question("question_6", "four green contexts: are their SMs disjoint", 12, "green"),
    _question("question_2", "two clients, under MPS at 50 %: which SMs they get", 16, "halves"),
    _question(
        "question_4", "torch symmetric memory of 2, 4, 8 processes on one GPU: latency of a sum", 36, "symmetric"
    ),
    _question("question_9", "one client faults: who is hit", 28, "fault"),
)
"""The first call, which needs no Warp. Faults of MPS clients come last."""

SECOND = (
    _question("question_3_warp", "Warp: memory between processes, graphs, conditional nodes", 20, "ipc warp"),
    Part(
        "kernels",
        "MuJoCo Warp's kernels for Ant are loaded from a cache that was carried, or compiled",
        28,
        ("python {ask} kernels ant", "{train} --gmis-per-gpu 1 --num-env {few} --iterations 1 --run-dir run"),
    ),
    Part(
        "first_run",
        "a training on one GMI, and how it goes on from its checkpoint",
        30,
        (
            "{train} --gmis-per-gpu 1 --num-env {few} --iterations {iterations} --run-dir run",
            "gmi-drl train --resume run --iterations {more}",
        ),
    ),
    Part(
        "warp_tests",
        "the tests of Warp on a GPU",
        48,
        (f"{TESTS} {{tests}}/gpu/test_physics_on_gpu.py {{tests}}/gpu/test_replica_on_gpu.py",),
    ),
    _question("solo", "one GMI over environments, then 3 s at the two best", 38, "solo ant {walk} {long}"),
    _question("sharing", "1, 2, 4 GMIs: plain, MPS, capped MPS", 265, "sharing ant {total} 1 2 4"),
)


def _other(task: str) -> tuple[Part, ...]:
    """Short stages for another task of the paper than Ant."""
    return (
        _question(
            f"{task}_solo", f"as solo, {task}, whose kernels are compiled", 80, f"solo {task} {{short_walk}} {{long}}"
        ),
        _question(f"{task}_sharing", f"as sharing, {task}", 50, f"sharing {task} {{total}} 2"),
    )


THIRD = (
    *_other("shadow_hand"),
    *_other("humanoid"),
    Part(
        "serving",
        "a policy served by one GMI, and by two",
        40,
        (
            "{train} --gmis-per-gpu 1 --num-env {few} --iterations 1 --run-dir run",
            "gmi-drl serve run --steps 200 --num-env {many} --gmis-per-gpu 1",
            "gmi-drl serve run --steps 200 --num-env {many} --gmis-per-gpu {two}",
        ),
    ),
    Part(
        "experience",
        "A3C on an agent and a trainer, with experience in memory of the GPU",
        30,
        (
            "{train} --template decoupled --algo a3c --gmis-per-gpu {two} --num-env {few} --iterations {more}"
            " --run-dir two",
        ),
    ),
    Part(
        "off_policy",
        "SAC and DQN, with replay in memory of the GPU",
        15,
        (
            "{train} --algo sac --gmis-per-gpu 1 --num-env {few} --iterations {iterations} --run-dir sac",
            "gmi-drl train --task gymnasium:CartPole-v1 --algo dqn --gmis-per-gpu 1 --num-env 16"
            " --iterations {iterations} --run-dir dqn",
        ),
    ),
    Part(
        "memory",
        "a policy with a GRU",
        15,
        (
            "{train} --gmis-per-gpu 1 --num-env {few} --iterations {iterations} --set learner.memory=gru"
            " --run-dir memory",
        ),
    ),
    _question("question_5", "NCCL with 2, 4, 8 ranks on one GPU: latency of a sum", 15, "nccl"),
)

CALLS = (FIRST, SECOND, THIRD)


@dataclass(frozen=True)
class Rehearsed:
    """The rehearsal of a stage on cores: CPU seconds of all its processes, and its commands."""

    cpu_s: float
    state: str
    commands: tuple[str, ...]


def all_stages(results: Path, is_rehearsal: bool) -> list[Stage]:
    """All stages, each with its call. Result files go into the folder `results`.

    The expected duration of a stage is the CPU time of its rehearsal, as starts and imports take as long on a GPU, plus
    the `gpu_s` of its part.
    """
    known = rehearsed()
    first = [_stage(part, results, is_rehearsal, known, call) for call, some in enumerate(CALLS, 1) for part in some]
    later = [_stage(part, results, is_rehearsal, known, 0) for part in LATER]
    return [*first, *_packed(later, len(CALLS))]


def rehearsed(file: Path = REHEARSED) -> dict[str, Rehearsed]:
    """The committed rehearsals by stage."""
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {row["stage"]: Rehearsed(row["cpu_s"], row["state"], tuple(row["commands"])) for row in rows}


def remember(rows: Mapping[str, stages.Row], results: Path, file: Path = REHEARSED) -> None:
    """Write the rehearsals of these stages into the file, and keep those of others."""
    lines = {row["stage"]: row for row in map(json.loads, file.read_text().splitlines() if file.exists() else ())}
    for row in rows.values():
        said = {name: row[name] for name in ("stage", "state", "seconds", "cpu_s")}
        lines[row["stage"]] = said | {"commands": [shown(command, results) for command in row["commands"]]}
    names = [part.name for some in (*CALLS, LATER) for part in some]
    file.write_text("".join(f"{json.dumps(lines[name])}\n" for name in names if name in lines))


def shown(command: Sequence[str], results: Path) -> str:
    """A command as text, without paths of this machine."""
    return shlex.join(command).replace(str(results.resolve()), "RESULTS").replace(f"{ROOT}/", "")


def _stage(part: Part, results: Path, is_rehearsal: bool, known: dict[str, Rehearsed], call: int) -> Stage:
    files = {
        "tests": ROOT / "tests",
        "tf32": HERE / "tf32.py",
        "warp_kernels": HERE / "warp_kernels.py",
        "results": results,
    }
    files |= {"ask": HERE / "gpu_questions.py", "asks": HERE / "gpus_day_questions.py"}
    places = {name: shlex.quote(str(file.resolve())) for name, file in files.items()} | {"stage": part.name}
    lines = (
        line.format_map((SMALL if is_rehearsal else FULL) | {name: f"{{{name}}}" for name in places})
        for line in part.commands
    )
    commands = tuple(tuple(shlex.split(line.format_map(places))) for line in lines)
    cpu_s = known[part.name].cpu_s if part.name in known else 0.0
    return Stage(part.name, part.about, REHEARSAL_S if is_rehearsal else cpu_s + part.gpu_s, commands, call)


def _packed(later: Sequence[Stage], calls: int) -> Iterator[Stage]:
    """Distribute stages over further calls, in their order: one that does not fit into a call starts the next."""
    left_s = 0.0
    for stage in later:
        if stage.seconds > left_s:
            calls, left_s = calls + 1, stages.CALL_S
        left_s -= stage.seconds
        yield Stage(stage.name, stage.about, stage.seconds, stage.commands, calls)
