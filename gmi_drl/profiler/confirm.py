"""Confirming candidates: all their GMIs together, by turns with one GMI per device and as many environments in all."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from gmi_drl.config import RunConfig
from gmi_drl.gmi import ProcessBackend
from gmi_drl.hardware import Node
from gmi_drl.profile import ProfilePoint
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.probe import MEASURE_S, point_of
from gmi_drl.profiler.session import Measured, Session
from gmi_drl.scheduler import even_layout
from gmi_drl.workload import TaskSpec

Place = tuple[int, int]
"""`(gmis_per_gpu, num_env)`."""

MOST_ROUNDS = 5


@dataclass(frozen=True)
class Confirmation:
    """What ran together: a point of one of its GMIs, and the steps per second of all (the median of the rounds)."""

    point: ProfilePoint
    steps_per_second: float


def rivals(places: Sequence[Place]) -> list[Place]:
    """The places, and beside each the one with one GMI per device and as many environments in all; each once."""
    return list(dict.fromkeys(rival for size, num_env in places for rival in ((size, num_env), (1, size * num_env))))


def confirm(
    task: TaskSpec,
    config: RunConfig,
    node: Node,
    places: Sequence[Place],
    budget: Budget,
    on_round: Callable[[int, Place, float], None] = lambda number, place, steps_per_second: None,
) -> list[Confirmation]:
    """Run layouts by turns, each once at least, as often as the budget allows and `MOST_ROUNDS` times at most.

    All layouts live on the same devices at once, and one runs at a time.

    Raises:
        LayoutMismatchError: if a device is in use.
        GmiError: when a GMI fails, dies or hangs.
    """
    rounds: dict[Place, list[Measured]] = {place: [] for place in places}
    with ExitStack() as life:
        sessions: dict[Place, Session] = {}
        for place in places:
            backend = ProcessBackend("gmi-drl plan", claims=not sessions)  # the first claims for all
            sessions[place] = life.enter_context(Session(even_layout(task, node, *place), config, backend=backend))
        for number in range(MOST_ROUNDS):
            before_s = budget.left_s
            for place in places if number % 2 == 0 else reversed(places):
                rounds[place].append(sessions[place].measure(place[1], MEASURE_S))
                on_round(number, place, rounds[place][-1].steps_per_second)
            if budget.left_s < before_s - budget.left_s:  # another round would take as long
                break
        return [_summary(place, rounds[place], len(sessions[place].layout.gmis)) for place in places]


def _summary(place: Place, rounds: Sequence[Measured], num_gmis: int) -> Confirmation:
    typical = sorted(rounds, key=lambda measured: measured.steps_per_second)[len(rounds) // 2]
    speed = median(measured.steps_per_second for measured in rounds)
    return Confirmation(point_of(typical, place[0], num_gmis), speed)
