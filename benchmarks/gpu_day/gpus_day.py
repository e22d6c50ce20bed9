"""A day on several GPUs of one host: sums between them, and Figures 7 to 11 of the paper at 2 to 8 GPUs. Never run yet.

    python benchmarks/gpu_day/gpus_day.py              the stages that have no result yet, as many as fit into --seconds
    python benchmarks/gpu_day/gpus_day.py --list       all stages for the GPUs of this machine, or for --gpus
    python benchmarks/gpu_day/gpus_day.py --rehearse   on two cores in place of two GPUs

Run `gpu_day.py` first, which compiles the kernels and checks that one GPU works. Needs the same, and idle GPUs. The
measurements are in `gpus_day_questions.py`; docs/gpu_day.md says how to read the results.
"""

import argparse
import math
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import stages
from stages import Stage

from gmi_drl.gmi.inventory import visible_gpus

HERE = Path(__file__).resolve().parent
ASKS = HERE / "gpus_day_questions.py"
FILE = "gpus_day.jsonl"
REHEARSAL = Path("gpus_day_rehearsal")
REHEARSAL_S = 300.0
"""The deadline of any stage in a rehearsal, which other work may slow down."""
COUNTS = (2, 4, 8)
LGR = ("MRR", "HAR", "SHARD")
"""Reductions between GPUs; the first two are the paper's."""
TASKS = ("ant", "humanoid", "shadow_hand")

FULL = {"mps": "mps", "nccl": "NCCL-flat", "num_envs": "2048,8192,32768", "num_env": "8192", "seconds": "60"}
SMALL = {"mps": "process", "nccl": "MPR-gloo", "num_envs": "8,16", "num_env": "8", "seconds": "5"}
"""Sizes for cores: MPS becomes plain sharing, and gloo takes the place of NCCL."""

Part = tuple[str, str, float, str]
"""Name, description, seconds on GPUs (a guess), and commands with sizes in braces, separated by semicolons."""


def parts(gpus: int) -> Iterator[Part]:
    """The stages for a number of GPUs, the most important first: correctness, sums, training, serving, the rest."""
    g = f"_{gpus}"
    for method in ("{nccl}", *LGR):
        lay = f"python {{asks}} layout one.yaml TCG_EX ant {gpus} 2:process:{method} {{num_env}}"
        train = "gmi-drl train one.yaml --iterations 20 --set checkpoint_every=5 --run-dir run"
        about = f"2 GMIs on each of {gpus} GPUs by {method}: each checkpoint compares the digests of all"
        yield f"replicas{g}_{method.strip('{}').lower()}", about, 45, f"{lay}; {train}"
    for gmis in (1, 2, 4):
        about = f"latency of every reduction among {gpus} x {gmis} GMIs: 0.1, 0.5, 1.5 M parameters"
        yield f"sums{g}x{gmis}", about, 40 + 5 * gpus * gmis, f"python {{asks}} sums {gpus} {gmis}"
    lgr = " ".join(f"2:{{mps}}:{method} 3:{{mps}}:{method}" for method in ("MPR-shm", *LGR))
    for task in TASKS:
        yield f"table_7{g}_{task}", f"Table 7: {task} by MPR and by LGR", 240, _speeds("TCG_EX", task, gpus, lgr)
    for task in TASKS:
        sides = "1:process:torch 1:process:horovod 1:process:{nccl} 2:{mps}:SHARD 4:{mps}:SHARD 8:{mps}:SHARD"
        about = f"Figure 7(b, c): {task} by GMIs against a process on each GPU with torch's NCCL, and Horovod"
        yield f"figure_7_training{g}_{task}", about, 400, _speeds("TCG_EX", task, gpus, sides)
    for task in TASKS:
        sides = " ".join(f"{gmis}:{way}" for gmis, way in ((1, "process"), (2, "{mps}"), (4, "{mps}"), (8, "{mps}")))
        about = f"Figure 7(a): {task} served by GMIs against a process on each GPU"
        yield f"figure_7_serving{g}_{task}", about, 240, _speeds("TCG", task, gpus, sides)
    about = "Figure 11: A3C by agents and trainers on GPUs of their own, and on GMIs of all"
    yield f"figure_11{g}", about, 150, f"python {{asks}} apart anymal {gpus} {{num_env}} 1:process 2:{{mps}} 4:{{mps}}"
    for task in ("ant", "anymal", "humanoid"):
        yield (
            f"figure_9{g}_{task}",
            f"Figure 9: the return of {task} over time, by a process and by GMIs",
            180,
            "; ".join(
                f"python {{asks}} layout {name}.yaml TCG_EX {task} {gpus} {side} {{num_env}}; "
                f"gmi-drl train {name}.yaml --iterations 99999 --set time_limit_s={{seconds}} --run-dir {name}; "
                f"gmi-drl status {name} --format json"
                for name, side in (("process", "1:process:torch"), ("gmis", "4:{mps}:SHARD"))
            ),
        )
    sides = "2:process 3:process 2:{mps} 3:{mps}"
    yield f"figure_8{g}", "Figure 8: 2 and 3 serving processes on each GPU", 120, _speeds("TCG", "ant", gpus, sides)
    yield (
        f"figure_10{g}",
        "Figure 10: a GMI on each GPU over environments",
        90,
        _speeds("TCG_EX", "ant", gpus, "1:process:{nccl}"),
    )


def _speeds(template: str, task: str, gpus: int, sides: str) -> str:
    return f"python {{asks}} speeds {template} {task} {gpus} {{num_envs}} {sides}"


def all_stages(gpus: int, is_rehearsal: bool) -> list[Stage]:
    """The stages for this number of GPUs; each runs with 2, 4 and 8 of them before the next stage."""
    sizes = (SMALL if is_rehearsal else FULL) | {"asks": shlex.quote(str(ASKS))}
    asked = [("machine", "GPUs, links, driver", 30, "gmi-drl doctor")]
    for alike in zip(*(parts(count) for count in COUNTS if count <= gpus), strict=True):
        asked += alike

    def stage(name: str, about: str, seconds: float, line: str) -> Stage:
        commands = tuple(tuple(shlex.split(one)) for one in line.format_map(sizes).split("; "))
        return Stage(name, about.format_map(sizes), REHEARSAL_S if is_rehearsal else seconds, commands)

    return [stage(*part) for part in asked]


def main() -> int:
    """Run stages or list them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the stages and run none")
    parser.add_argument("--gpus", type=int, choices=COUNTS, help="for so many (default: all that are here)")
    parser.add_argument("--only", nargs="+", metavar="STAGE", help="these, also if they have a result")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of this call (default: without end)")
    parser.add_argument("--rehearse", action="store_true", help=f"at a tiny size, on cores; results go to {REHEARSAL}")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="of the results (default: results/gpus)")
    given = parser.parse_args()
    here = len(visible_gpus())
    known = all_stages(given.gpus or (2 if given.rehearse else here), given.rehearse)
    if unknown := set(given.only or ()) - {stage.name for stage in known}:
        parser.error(f"there is no stage {', '.join(sorted(unknown))}: --list shows them")
    output = (given.output or (REHEARSAL if given.rehearse else HERE.parent / "results" / "gpus")) / FILE
    had = stages.results(output)
    if given.list:
        lines = [f"{one.name:<{stages.NAME_WIDTH}}{one.seconds:>6.0f} s  {one.about}" for one in known]
        print("\n".join([*lines, f"all together about {sum(one.seconds for one in known) / 60:.0f} minutes"]))
        return 0
    if not given.rehearse and here < 2:
        print(f"gpus_day: this process sees {here} GPUs, two are needed: try it out with --rehearse", file=sys.stderr)
        return 4
    os.environ |= {stages.REHEARSAL: "1"} if given.rehearse else {}
    todo = [stage for stage in known if (stage.name in given.only if given.only else stage.name not in had)]
    return stages.run_all(todo, output, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
