"""The numbers of a row by the tags under which rsl_rl writes them, so that runs of both share their plots."""

from collections.abc import Iterator

from gmi_drl.run.metrics import Row
from gmi_drl.run.phases import LEARN, PHASE_NAMES, WAIT

RSL_RL_TAGS = {
    "return_mean": "Train/mean_reward",
    "episode_length_mean": "Train/mean_episode_length",
    "steps_per_second": "Perf/total_fps",
    "collect_s": "Perf/collection_time",
    "entropy": "Loss/entropy",
    "learning_rate": "Loss/learning_rate",
    "action_std": "Policy/mean_std",
}
"""What both have (`rsl_rl.utils.logger`, 5.5); losses are `Loss/NAME`. rsl_rl counts iterations from 0, rows from 1."""

LEARNING_TIME = "Perf/learning_time"
"""rsl_rl's has the waiting for other ranks in it."""

LEFT_OUT = {"iteration", "return_sum", "length_sum"}
"""The axis, and sums whose means are there."""


def scalars(row: Row) -> dict[str, float]:
    """The numbers of a row `{tag: value}`; without those that are null.

    `Reward/NAME` is the mean of a step of the reward and of its terms, `GMI/NAME` what rsl_rl does not have: seconds of
    the phases, as means and of each GMI (`GMI/0/sim_s`), steps, and whatever else a learner tells. `Device/gpu0/NAME`
    is how busy a GPU was (`gmi.utilisation.Usage`).
    """
    return {tag: float(value) for tag, value in _tagged(row) if isinstance(value, int | float)}


def _tagged(row: Row) -> Iterator[tuple[str, object]]:
    yield LEARNING_TIME, row[LEARN.name] + row[WAIT.name]
    for name, value in row.items():
        if name not in LEFT_OUT:
            yield _tag(name), value
    for name, value in row.get("reward_terms", {}).items():
        yield f"Reward/{name}", value
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
    return RSL_RL_TAGS.get(name, f"GMI/{name}")
