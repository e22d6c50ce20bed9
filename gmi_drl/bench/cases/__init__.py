"""All cases, by name. Knowing them costs neither torch nor a simulator: those come when a case is opened."""

from gmi_drl.bench.case import Case
from gmi_drl.bench.cases import (
    algorithm_2,
    ant_simulators,
    ant_step,
    costs,
    figure_10,
    gmis_against_solo,
    learning,
    learning_against_rsl_rl,
    physics,
    planning,
    ppo_ant_v5,
    ppo_update,
    reduction,
    returns_v5,
)
from gmi_drl.errors import UsageError, did_you_mean

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        ant_step.CASE,
        *ant_simulators.CASES,
        costs.CASE,
        *reduction.CASES,
        ppo_update.CASE,
        *learning.CASES,
        learning_against_rsl_rl.CASE,
        *gmis_against_solo.CASES,
        figure_10.CASE,
        physics.CASE,
        ppo_ant_v5.CASE,
        *returns_v5.CASES,
        *algorithm_2.CASES,
        planning.CASE,
    )
}


def find_case(name: str) -> Case:
    """The case of that name.

    Raises:
        UsageError: if there is none; it names the nearest.
    """
    if name not in CASES:
        raise UsageError(f"there is no case {name!r}{did_you_mean(name, CASES)}")
    return CASES[name]
