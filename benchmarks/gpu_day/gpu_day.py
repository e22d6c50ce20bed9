"""A first day on a GPU: does it run, is it right, how fast is one GMI, does sharing pay, and all further measurements.

    python benchmarks/gpu_day/gpu_day.py --call 1      nine minutes, without Warp; then --call 2 and --call 3
    python benchmarks/gpu_day/gpu_day.py               the stages that have no result yet, as many as nine minutes take
    python benchmarks/gpu_day/gpu_day.py --list        lists all stages with duration, call and result
    python benchmarks/gpu_day/gpu_day.py --rehearse    the same commands at a tiny size, on cores without a GPU

Needs one idle GPU, and gmi-drl with the extras [warp] and [dev], but no network and no root. The modes of the GPU stay
as they are. The stages are in `gpu_day_stages.py`; docs/gpu_day.md says how to read the results.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import stages
from gpu_day_stages import CALLS, all_stages, remember

RESULTS = Path(__file__).resolve().parent.parent / "results" / "gpu"
REHEARSAL = Path("gpu_day_rehearsal")
FILE = "gpu_day.jsonl"


def main() -> int:
    """Run stages or list them."""
    given = _parser().parse_args()
    folder = given.output or (REHEARSAL if given.rehearse else RESULTS)
    known, had = all_stages(folder, given.rehearse), stages.results(folder / FILE)
    if why := mistake(known, given.only, given.call, given.resume_from):
        _parser().error(why)
    todo = chosen(known, had, given.only, given.call, given.resume_from)
    if given.list:
        print(listed(known, todo, had))
        return 0
    if why := stages.obstacle(given.rehearse):
        print(f"gpu_day: {why}", file=sys.stderr)
        return 4
    code = stages.run_all(todo, folder / FILE, math.inf if given.rehearse else given.seconds)
    if given.rehearse and given.output is None:
        remember(stages.results(folder / FILE), folder)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the stages and run none")
    parser.add_argument("--call", type=int, metavar="N", help="the stages of this call; of the third also what failed")
    parser.add_argument("--resume-from", metavar="STAGE", help="this one and those after it, up to the end of --call")
    parser.add_argument("--only", nargs="+", metavar="STAGE", help="these, also if they have a result")
    parser.add_argument("--seconds", type=float, default=stages.CALL_S, help="of a call (default: %(default)g)")
    parser.add_argument("--rehearse", action="store_true", help=f"at a tiny size, into {REHEARSAL}; keeps what it took")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="of the results (default: results/gpu)")
    return parser


def mistake(
    known: Sequence[stages.Stage], only: Sequence[str] | None, call: int | None, resume_from: str | None
) -> str | None:
    """Why the options contradict each other; None if they do not."""
    call_of = {stage.name: stage.call for stage in known}
    if unknown := {*(only or ()), *([resume_from] if resume_from else ())} - call_of.keys():
        return f"there is no stage {', '.join(sorted(unknown))}: --list shows them"
    if only and (call is not None or resume_from):
        return "--only names all stages that are run: leave out --call and --resume-from"
    if call is not None and call not in call_of.values():
        return f"there is no call {call}: --list shows them"
    if call is not None and resume_from and call_of[resume_from] > call:
        return f"{resume_from} is of call {call_of[resume_from]}: --call {call} ends before it"
    return None


def chosen(
    known: Sequence[stages.Stage],
    had: Mapping[str, stages.Row],
    only: Sequence[str] | None = None,
    call: int | None = None,
    resume_from: str | None = None,
) -> list[stages.Stage]:
    """The stages to run, in their order: those without a result, unless they are named.

    Args:
        known: All stages.
        had: Existing results by stage.
        only: Run exactly these, even if they have results.
        call: Run the stages of this call. The third call ends with what earlier ones left undone.
        resume_from: Run this stage, even if it has a result, and those after it, also of calls before `call`.
    """
    if only:
        return [stage for stage in known if stage.name in only]
    names = [stage.name for stage in known]
    begin = names.index(resume_from) if resume_from else 0
    calls = range(1 if resume_from or call is None else call, (call or known[-1].call) + 1)
    todo = [
        stage for stage in known[begin:] if stage.call in calls and (stage.name not in had or stage.name == resume_from)
    ]
    undone = [stage for stage in known if stage.name not in had or had[stage.name]["state"] != stages.DONE]
    again = [stage for stage in undone if stage.call < len(CALLS)] if call == len(CALLS) else []
    return [*todo, *(stage for stage in again if stage not in todo)]


def listed(known: Sequence[stages.Stage], todo: Sequence[stages.Stage], had: Mapping[str, stages.Row]) -> str:
    """The list of all stages, with the time of each call's stages that are still to be run."""
    lines = [f"{'stage':<{stages.NAME_WIDTH}}{'expected':>9}{'call':>6}  {'result':<20}what it is about"]
    for stage in known:
        row = had.get(stage.name)
        result = f"{row['state']}, {row['seconds']:.0f} s" if row else "-"
        expected = f"{stage.seconds:>7.0f} s{stage.call:>6}"
        lines.append(f"{stage.name:<{stages.NAME_WIDTH}}{expected}  {result:<20}{stage.about}")
    for call in sorted({stage.call for stage in todo}):
        seconds = sum(stage.seconds for stage in todo if stage.call == call)
        lines.append(f"call {call}: about {seconds:.0f} of {stages.CALL_S:.0f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
