"""The code that cases measure, by what it does: files, or folders, which end in a slash.

A case names some of these sets. Its results are stale once one of these files has changed (`stale`). What only carries
a measurement (processes, files, plans, other parts of the package) is not listed: it is not in the time measured.
"""

from collections.abc import Sequence

Paths = tuple[str, ...]

PHYSICS: Paths = ("gmi_drl/tasks/sim/base.py", "gmi_drl/tasks/sim/engine.py", "gmi_drl/tasks/sim/native.py")

OUR_TASKS: Paths = (
    *PHYSICS,
    "gmi_drl/tasks/sim_task.py",
    "gmi_drl/tasks/locomotion.py",
    *(
        f"gmi_drl/tasks/{name}{part}.py"
        for name in ("ant", "anymal", "ball_balance", "franka_cabinet", "humanoid", "shadow_hand")
        for part in ("", "_mjcf")
    ),
)

V5_TASKS: Paths = (*PHYSICS, "gmi_drl/tasks/sim_task.py", "gmi_drl/tasks/sim/stepped.py", "gmi_drl/tasks/mujoco_v5/")

ADAPTERS: Paths = (
    "gmi_drl/tasks/adapters/base.py",
    "gmi_drl/tasks/adapters/envpool.py",
    "gmi_drl/tasks/adapters/gymnasium.py",
)

ACTING: Paths = (
    "gmi_drl/algo/agent.py",
    "gmi_drl/algo/elu.py",
    "gmi_drl/algo/networks/",
    "gmi_drl/algo/normaliser.py",
    "gmi_drl/algo/rollout.py",
    "gmi_drl/algo/rollout_slot.py",
    "gmi_drl/roles/training/actor.py",
    "gmi_drl/roles/training/policy_step.py",
)

UPDATE: Paths = (
    "gmi_drl/algo/adam.py",
    "gmi_drl/algo/backprop.py",
    "gmi_drl/algo/elu.py",
    "gmi_drl/algo/flat_learner.py",
    "gmi_drl/algo/flat_parameters.py",
    "gmi_drl/algo/networks/",
    "gmi_drl/algo/plain_gradient.py",
    "gmi_drl/algo/sequences.py",
)

PPO: Paths = (*UPDATE, "gmi_drl/algo/ppo.py")

A3C: Paths = (
    *UPDATE,
    "gmi_drl/algo/a3c.py",
    "gmi_drl/algo/experience_batch.py",
    "gmi_drl/algo/vtrace.py",
)

SUMS_OF_A_HOST: Paths = (
    "gmi_drl/comm/groups/shared_memory.py",
    "gmi_drl/comm/memory/rank_slots.py",
    "gmi_drl/comm/memory/rank_table.py",
    "gmi_drl/comm/reductions/mpr_shm.py",
    "gmi_drl/comm/reductions/rows.py",
)

SUMS: Paths = (*SUMS_OF_A_HOST, "gmi_drl/comm/baselines/", "gmi_drl/comm/groups/", "gmi_drl/comm/reductions/")

ITERATION: Paths = (
    *ACTING,
    *PPO,
    *SUMS_OF_A_HOST,
    "gmi_drl/roles/training/iteration_stats.py",
    "gmi_drl/roles/training/learner.py",
    "gmi_drl/roles/training/ppo_replica.py",
)

TRAINING: Paths = (*OUR_TASKS, *ITERATION)

SERVING: Paths = (*OUR_TASKS, *ACTING, "gmi_drl/roles/serving/service.py")

REPLAY: Paths = ("gmi_drl/replay/",)

LINKS: Paths = ("gmi_drl/comm/links/framing.py", "gmi_drl/comm/links/token_listener.py")

SEQUENCE: Paths = (
    "gmi_drl/algo/adam.py",
    "gmi_drl/algo/flat_parameters.py",
    "gmi_drl/algo/sequence.py",
    "gmi_drl/algo/sequence_agent.py",
    "gmi_drl/algo/sequence_policy.py",
    "gmi_drl/comm/links/",
    "gmi_drl/roles/sequence/draws.py",
)

FROM_REPLAY: Paths = (
    "gmi_drl/algo/adam.py",
    "gmi_drl/algo/backprop.py",
    "gmi_drl/algo/dqn.py",
    "gmi_drl/algo/flat_parameters.py",
    "gmi_drl/algo/q_networks.py",
    "gmi_drl/algo/replay_learner.py",
    "gmi_drl/algo/sac.py",
    "gmi_drl/algo/sac_networks.py",
    "gmi_drl/roles/replay/",
)

CHANNELS: Paths = (
    "gmi_drl/comm/channels/agent_end.py",
    "gmi_drl/comm/channels/batcher.py",
    "gmi_drl/comm/channels/batches.py",
    "gmi_drl/comm/channels/dispenser.py",
    "gmi_drl/comm/channels/local_agent.py",
    "gmi_drl/comm/channels/records.py",
    "gmi_drl/comm/channels/trainer_end.py",
    "gmi_drl/comm/memory/leases.py",
    "gmi_drl/comm/memory/record_ring.py",
    "gmi_drl/comm/parameters/",
)

STREAMS: Paths = (
    "gmi_drl/comm/memory/notify.py",
    "gmi_drl/comm/streams/batching.py",
    "gmi_drl/comm/streams/client.py",
    "gmi_drl/comm/streams/server.py",
    "gmi_drl/comm/streams/slots.py",
)

FAR_STREAMS: Paths = (
    "gmi_drl/comm/links/framing.py",
    "gmi_drl/comm/links/send_buffer.py",
    "gmi_drl/comm/streams/far_client.py",
    "gmi_drl/comm/streams/far_clients.py",
    "gmi_drl/comm/streams/slot_link.py",
)

DECOUPLED: Paths = (
    *OUR_TASKS,
    *ACTING,
    *A3C,
    *CHANNELS,
    "gmi_drl/roles/decoupled/a3c_learner.py",
    "gmi_drl/roles/decoupled/agent.py",
    "gmi_drl/roles/decoupled/channel_replica.py",
    "gmi_drl/roles/decoupled/rollout_writer.py",
    "gmi_drl/roles/decoupled/trainer.py",
)

WORKERS: Paths = (
    *ADAPTERS,
    *ACTING,
    *PPO,
    *CHANNELS,
    *STREAMS,
    "gmi_drl/algo/judged.py",
    "gmi_drl/roles/decoupled/channel_replica.py",
    "gmi_drl/roles/decoupled/rollout_writer.py",
    "gmi_drl/roles/workers/",
)

DEDICATED: Paths = (*TRAINING, *SERVING, "gmi_drl/comm/messages/", "gmi_drl/roles/dedicated/")

PLANNING: Paths = ("gmi_drl/scheduler/", "gmi_drl/templates/", "gmi_drl/layout/layout.py")

SEARCH: Paths = (
    "gmi_drl/profiler/measured_plan.py",
    "gmi_drl/profiler/points.py",
    "gmi_drl/scheduler/paper_algorithm_2.py",
    "gmi_drl/scheduler/exploration.py",
    "gmi_drl/scheduler/grid.py",
    "gmi_drl/scheduler/objective.py",
    "gmi_drl/scheduler/plan.py",
)

RESUMING: Paths = ("gmi_drl/launch/", "gmi_drl/run/checkpoint.py", "gmi_drl/run/checkpoint_store.py")
"""What a run does between its last iteration and the first one after it was resumed."""

RSL_RL: Paths = ("gmi_drl/roles/rsl_rl/replica.py", "gmi_drl/tasks/rsl_rl_env.py", *SUMS_OF_A_HOST)

RAY: Paths = ("gmi_drl/launch/ray/actor.py", "gmi_drl/launch/ray/supervisors.py", "gmi_drl/launch/nodes/supervisor.py")


def drivers(*names: str, peers: Sequence[str]) -> Paths:
    """The drivers with these names, their settings, and the pinned versions of the peers that they run.

    Args:
        names: Files of `benchmarks/peers`, without `.py`.
        peers: The peers in whose virtual environments they run.
    """
    files = (f"benchmarks/peers/{name}.py" for name in (*names, "settings"))
    return (*files, *(f"benchmarks/peers/requirements/{peer}.txt" for peer in peers))
