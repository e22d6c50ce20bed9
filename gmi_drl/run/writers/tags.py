"""The numbers of a row by rsl_rl's tags, so that runs of both can share plots."""

from collections.abc import Iterator

from gmi_drl.run.metrics import Row
from gmi_drl.run.phases import LEARN, PHASE_NAMES, WAIT

RSL_RL_TAGS = {
    "return_mean": "Train/mean_reward",
    "episode_length_mean": "Train/mean_episode_length",
    "steps_per_second": "Perf/total_fps",
    "collect_s": "Perf/collection_time",
    "entropy": "Loss/entropy",
    "kl": "Loss/kl",
    "learning_rate": "Loss/learning_rate",
    "action_std": "Policy/mean_std",
}
"""Tags of numbers that rsl_rl has, too (`rsl_rl.utils.logger`, 5.5). rsl_rl counts iterations from 0, rows from 1."""

EVALUATION_TAGS = {"eval_return_mean": "Eval/mean_reward", "eval_length_mean": "Eval/mean_episode_length"}

LEARNING_TIME = "Perf/learning_time"
"""Includes waiting for other ranks, as in rsl_rl."""

LEFT_OUT = {"iteration", "return_sum", "length_sum"}
"""The axis of the plots, and sums whose means are in the row."""


def scalars(row: Row) -> dict[str, float]:
    """The numbers of a row that are not null, `{tag: value}`.

    Losses are `Loss/NAME`; `Reward/NAME` is the mean per step of the reward and of its terms. `GMI/NAME` is for numbers
    that rsl_rl does not have: seconds of the phases, as means and of each GMI (`GMI/0/sim_s`), steps, and other metrics
    of a learner. `Device/gpu0/NAME` is the utilisation of a GPU (`gmi.utilisation.Usage`). `Policy/NAME/...` has all of
    this of one of several policies.
    """
    return {tag: float(value) for tag, value in _tagged(row) if isinstance(value, int | float)}


def _tagged(row: Row) -> Iterator[tuple[str, object]]:
    yield LEARNING_TIME, row[LEARN.name] + row[WAIT.name]
    for name, value in row.items():
        if name not in LEFT_OUT:
            yield _tag(name), value
    for name, value in row.get("reward_terms", {}).items():
        yield f"Reward/{name}", value
    for name, value in row.get("world_returns", {}).items():
        yield f"GMI/world_returns/{name}", value
    for policy, own in row.get("policies", {}).items():
        for tag, value in _tagged(own):
            yield f"Policy/{policy}/{tag}", value
    for device, values in row.get("devices", {}).items():
        for name, value in values.items():
            yield f"Device/{device}/{name}", value
    for gmi_id, phases in row["gmis"].items():
        for name in PHASE_NAMES:
            yield f"GMI/{gmi_id}/{name}", phases[name]


def _tag(name: str) -> str:
    if name == "reward_mean":
        return "Reward/mean"
    if name.endswith("_loss"):
        return f"Loss/{name.removesuffix('_loss')}"
    return (RSL_RL_TAGS | EVALUATION_TAGS).get(name, f"GMI/{name}")
