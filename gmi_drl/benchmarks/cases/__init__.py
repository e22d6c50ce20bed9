"""All cases by name. This module imports neither torch nor a simulator: a case imports them when it is opened."""

from collections.abc import Sequence
from types import ModuleType

from gmi_drl.benchmarks.case import Case
from gmi_drl.benchmarks.cases.components import (
    a3c_update,
    ant_step,
    channels,
    costs,
    experience_on_gpu,
    physics,
    planning,
    ppo_update,
    reductions,
    replay,
    replay_gather,
)
from gmi_drl.benchmarks.cases.learning import learning, learning_asynchronous
from gmi_drl.benchmarks.cases.paper import (
    algorithm_2,
    figure_1b,
    figure_7,
    figure_8,
    figure_10,
    figure_11,
    table_8,
    table_8_dummies,
    tables_4_5,
)
from gmi_drl.benchmarks.cases.peers import (
    ant_simulators,
    learning_against_rsl_rl,
    mjlab_train,
    ppo_ant_v5,
    ray_overhead,
    returns_v5,
    rllib_cluster,
)
from gmi_drl.benchmarks.cases.sharing import gmis_against_solo, green_contexts, sharing, uneven
from gmi_drl.errors import UsageError, did_you_mean

_CASES: tuple[tuple[ModuleType, Sequence[Case]], ...] = (
    (ant_step, (ant_step.CASE,)),
    (ant_simulators, ant_simulators.CASES),
    (costs, (costs.CASE,)),
    (channels, channels.CASES),
    (reductions, reductions.CASES),
    (replay, replay.CASES),
    (replay_gather, replay_gather.CASES),
    (ppo_update, (ppo_update.CASE,)),
    (a3c_update, a3c_update.CASES),
    (learning, learning.CASES),
    (learning_against_rsl_rl, (learning_against_rsl_rl.CASE,)),
    (learning_asynchronous, learning_asynchronous.CASES),
    (table_8, table_8.CASES),
    (table_8_dummies, table_8_dummies.CASES),
    (mjlab_train, mjlab_train.CASES),
    (gmis_against_solo, gmis_against_solo.CASES),
    (tables_4_5, tables_4_5.CASES),
    (ray_overhead, (ray_overhead.CASE,)),
    (sharing, sharing.CASES),
    (experience_on_gpu, (experience_on_gpu.CASE,)),
    (figure_1b, (figure_1b.CASE,)),
    (figure_7, figure_7.CASES),
    (figure_8, figure_8.CASES),
    (green_contexts, (green_contexts.CASE,)),
    (figure_10, (figure_10.CASE,)),
    (figure_11, (figure_11.CASE,)),
    (physics, (physics.CASE,)),
    (ppo_ant_v5, (ppo_ant_v5.CASE,)),
    (rllib_cluster, rllib_cluster.CASES),
    (returns_v5, returns_v5.CASES),
    (algorithm_2, algorithm_2.CASES),
    (planning, (planning.CASE,)),
    (uneven, (uneven.CASE,)),
)

CASES: dict[str, Case] = {case.name: case for _, cases in _CASES for case in cases}
MODULES: dict[str, str] = {case.name: module.__name__ for module, cases in _CASES for case in cases}
"""The module of each case."""


def find_case(name: str) -> Case:
    """The case with this name.

    Raises:
        UsageError: if there is none; it suggests the nearest name.
    """
    if name not in CASES:
        raise UsageError(f"there is no case {name!r}{did_you_mean(name, CASES)}")
    return CASES[name]
