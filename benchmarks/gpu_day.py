"""A first day on a GPU: does it run, is it right, how fast is it alone, does sharing pay, and all that comes after.

    python benchmarks/gpu_day.py              the stages that have no result yet, as many as fit into nine minutes
    python benchmarks/gpu_day.py --list       all stages: how long, in which call, how they went
    python benchmarks/gpu_day.py --rehearse   the same commands at a tiny size, on cores where there is no GPU

Needs one GPU that is otherwise idle, and gmi-drl with the extras [warp] and [dev]; no network and no rights. Modes of
the GPU stay as they are. What each stage is: `gpu_day_stages.py`; how to read it all: docs/gpu_day.md.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import stages
from gpu_day_stages import all_stages

RESULTS = Path(__file__).resolve().parent / "results" / "gpu"
REHEARSAL = Path("gpu_day_rehearsal")
FILE = "gpu_day.jsonl"


def main() -> int:
    """Run stages or list them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the stages and run none")
    parser.add_argument("--only", nargs="+", metavar="STAGE", help="these, also if they have a result")
    parser.add_argument("--seconds", type=float, default=stages.CALL_S, help="of a call (default: %(default)g)")
    parser.add_argument("--rehearse", action="store_true", help=f"at a tiny size; results go to {REHEARSAL}")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="of the results (default: results/gpu)")
    given = parser.parse_args()
    folder = given.output or (REHEARSAL if given.rehearse else RESULTS)
    known, had = all_stages(folder, given.rehearse), stages.results(folder / FILE)
    if unknown := set(given.only or ()) - {stage.name for stage in known}:
        parser.error(f"there is no stage {', '.join(sorted(unknown))}: --list shows them")
    chosen = [stage for stage in known if (stage.name in given.only if given.only else stage.name not in had)]
    if given.list:
        print(listed(known, chosen, had, given.seconds))
        return 0
    if why := stages.obstacle(given.rehearse):
        print(f"gpu_day: {why}", file=sys.stderr)
        return 4
    return stages.run_all(chosen, folder / FILE, given.seconds)


def listed(
    known: Sequence[stages.Stage], chosen: Sequence[stages.Stage], had: Mapping[str, stages.Row], seconds: float
) -> str:
    """All stages, and in which call those fall that are to be run."""
    call_of = stages.calls(chosen, seconds)
    lines = [f"{'stage':<{stages.NAME_WIDTH}}{'expected':>9}{'call':>10}  {'result':<20}what it is about"]
    for stage in known:
        row = had.get(stage.name)
        result = f"{row['state']}, {row['seconds']:.0f} s" if row else "-"
        call = call_of.get(stage.name, "too long" if stage in chosen else "-")
        expected = f"{stage.seconds:>7.0f} s{call:>10}"
        lines.append(f"{stage.name:<{stages.NAME_WIDTH}}{expected}  {result:<20}{stage.about}")
    for call in sorted(set(call_of.values())):
        inside = [stage.seconds for stage in chosen if call_of.get(stage.name) == call]
        lines.append(f"call {call}: about {sum(inside):.0f} of {seconds:.0f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
