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
    growth,
    nature_network,
    physics,
    planning,
    ppo_update,
    reductions,
    replay,
    replay_clients,
    replay_face,
    replay_gather,
    replay_learning,
    replay_rings,
    replay_server,
    replay_shards,
    sequence_prefetch,
    sequence_update,
    streams,
    streams_far,
    update_products,
    workers_inline_remote,
)
from gmi_drl.benchmarks.cases.learning import learning, learning_asynchronous, memories
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
    off_policy,
    pong_speed,
    ppo_ant_v5,
    ray_overhead,
    returns_v5,
    rllib_cluster,
    srl_table_1,
)
from gmi_drl.benchmarks.cases.sharing import gmis_against_solo, green_contexts, resizing, sac_ant, sharing, uneven
from gmi_drl.benchmarks.measured import (
    A3C,
    ADAPTERS,
    CHANNELS,
    DECOUPLED,
    DEDICATED,
    FAR_STREAMS,
    FROM_REPLAY,
    ITERATION,
    LINKS,
    OUR_TASKS,
    PLANNING,
    PPO,
    RAY,
    REPLAY,
    RESUMING,
    RSL_RL,
    SEARCH,
    SEQUENCE,
    SERVING,
    STREAMS,
    SUMS,
    TRAINING,
    V5_TASKS,
    WORKERS,
    Paths,
    drivers,
)
from gmi_drl.errors import UsageError, did_you_mean

_CASES: tuple[tuple[ModuleType, Sequence[Case], Paths], ...] = (
    (ant_step, (ant_step.CASE,), OUR_TASKS),
    (
        ant_simulators,
        ant_simulators.CASES,
        (*OUR_TASKS, *V5_TASKS, *drivers("step_envpool", peers=["cleanrl_envpool"])),
    ),
    (costs, (costs.CASE,), TRAINING),
    (channels, channels.CASES, CHANNELS),
    (streams, streams.CASES, (*STREAMS, *drivers("streams_pyzmq", peers=["pyzmq"]))),
    (streams_far, streams_far.CASES, (*STREAMS, *FAR_STREAMS)),
    (workers_inline_remote, workers_inline_remote.CASES, WORKERS),
    (reductions, reductions.CASES, (*SUMS, *drivers("reduce_mpi", peers=["mpi"]))),
    (
        replay,
        replay.CASES,
        (*REPLAY, *drivers("replay_cpprb", "replay_torchrl", "replay_loops", peers=["cpprb", "torchrl"])),
    ),
    (replay_gather, replay_gather.CASES, REPLAY),
    (replay_rings, replay_rings.CASES, REPLAY),
    (
        replay_server,
        replay_server.CASES,
        (*REPLAY, *LINKS, "benchmarks/peers/replay/", "benchmarks/peers/requirements/reverb.txt"),
    ),
    (
        replay_face,
        replay_face.CASES,
        (*REPLAY, *LINKS, "benchmarks/peers/replay/", "benchmarks/peers/requirements/reverb.txt"),
    ),
    (
        replay_clients,
        replay_clients.CASES,
        (*REPLAY, *LINKS, "benchmarks/peers/replay/", "benchmarks/peers/requirements/reverb.txt"),
    ),
    (
        replay_shards,
        replay_shards.CASES,
        (*REPLAY, "gmi_drl/comm/links/", "benchmarks/peers/replay/", "benchmarks/peers/requirements/reverb.txt"),
    ),
    (sequence_prefetch, sequence_prefetch.CASES, (*REPLAY, *SEQUENCE)),
    (sequence_update, sequence_update.CASES, (*REPLAY, *SEQUENCE)),
    (replay_learning, replay_learning.CASES, (*REPLAY, *FROM_REPLAY)),
    (growth, growth.CASES, (*TRAINING, *PLANNING)),
    (ppo_update, ppo_update.CASES, PPO),
    (update_products, (update_products.CASE,), PPO),
    (nature_network, (nature_network.CASE,), PPO),
    (a3c_update, a3c_update.CASES, A3C),
    (learning, learning.CASES, TRAINING),
    (learning_against_rsl_rl, (learning_against_rsl_rl.CASE,), (*TRAINING, *RSL_RL)),
    (memories, (memories.CASE,), (*ADAPTERS, *ITERATION, *drivers("returns_sb3_contrib", peers=["sb3_contrib"]))),
    (learning_asynchronous, learning_asynchronous.CASES, DECOUPLED),
    (table_8, table_8.CASES, DECOUPLED),
    (table_8_dummies, table_8_dummies.CASES, CHANNELS),
    (
        mjlab_train,
        mjlab_train.CASES,
        (*RSL_RL, "gmi_drl/tasks/adapters/mjlab.py", *drivers("train_mjlab", peers=["mjlab"])),
    ),
    (gmis_against_solo, gmis_against_solo.CASES, TRAINING),
    (tables_4_5, tables_4_5.CASES, DEDICATED),
    (ray_overhead, (ray_overhead.CASE,), (*TRAINING, *RAY)),
    (sharing, sharing.CASES, TRAINING),
    (experience_on_gpu, (experience_on_gpu.CASE,), DECOUPLED),
    (figure_1b, (figure_1b.CASE,), TRAINING),
    (figure_7, figure_7.CASES, (*TRAINING, *SERVING)),
    (figure_8, figure_8.CASES, (*TRAINING, *SERVING)),
    (green_contexts, (green_contexts.CASE,), TRAINING),
    (figure_10, (figure_10.CASE,), TRAINING),
    (figure_11, (figure_11.CASE,), DECOUPLED),
    (physics, (physics.CASE,), OUR_TASKS),
    (ppo_ant_v5, (ppo_ant_v5.BF16_CASE,), (*V5_TASKS, *ITERATION)),
    (
        ppo_ant_v5,
        (ppo_ant_v5.CASE,),
        (
            *V5_TASKS,
            *ADAPTERS,
            *ITERATION,
            *drivers(*(f"train_{peer}" for peer in ppo_ant_v5.PEERS), peers=ppo_ant_v5.PEERS),
        ),
    ),
    (
        pong_speed,
        pong_speed.CASES,
        (
            *ADAPTERS,
            *ITERATION,
            *drivers(
                *("discrete_cleanrl", "discrete_sb3", "train_rllib", "train_sample_factory"),
                *pong_speed.PEERS.values(),
                peers=[*pong_speed.PEERS],
            ),
        ),
    ),
    (
        srl_table_1,
        srl_table_1.CASES,
        (
            *WORKERS,
            *ITERATION,
            *drivers(
                *("train_rllib", "train_sample_factory", "atari_rllib", "atari_sample_factory"),
                peers=["rllib", "sample_factory"],
            ),
        ),
    ),
    (rllib_cluster, rllib_cluster.CASES, (*V5_TASKS, *ADAPTERS, *ITERATION, *drivers("train_rllib", peers=["rllib"]))),
    (returns_v5, returns_v5.CASES, (*ADAPTERS, *ITERATION, *drivers("returns_sb3", peers=["sb3"]))),
    (
        off_policy,
        off_policy.CASES,
        (
            *ADAPTERS,
            *V5_TASKS,
            *REPLAY,
            *FROM_REPLAY,
            *drivers(
                "off_policy_settings", *(driver for _, driver in off_policy.DRIVERS.values()), peers=["sb3", "torchrl"]
            ),
        ),
    ),
    (algorithm_2, algorithm_2.CASES, (*TRAINING, *SERVING, *SEARCH)),
    (planning, planning.CASES, PLANNING),
    (sac_ant, sac_ant.CASES, (*TRAINING, *REPLAY, *FROM_REPLAY)),
    (resizing, resizing.CASES, (*TRAINING, *RESUMING)),
    (uneven, (uneven.CASE,), TRAINING),
)

CASES: dict[str, Case] = {case.name: case for _, cases, _ in _CASES for case in cases}
MODULES: dict[str, str] = {case.name: module.__name__ for module, cases, _ in _CASES for case in cases}
"""The module of each case."""

MEASURED: dict[str, Paths] = {case.name: paths for _, cases, paths in _CASES for case in cases}
"""The files and folders that each case measures; a change there makes its results stale."""


def find_case(name: str) -> Case:
    """The case with this name.

    Raises:
        UsageError: if there is none; it suggests the nearest name.
    """
    if name not in CASES:
        raise UsageError(f"there is no case {name!r}{did_you_mean(name, CASES)} (gmi-drl bench list)")
    return CASES[name]
