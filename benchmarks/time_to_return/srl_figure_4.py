"""SRL's Figure 4 in kind: time and samples to a fixed return, with inline and with remote inference, by lag.

    python benchmarks/time_to_return/srl_figure_4.py learn                     # continues where it was stopped
    python benchmarks/time_to_return/srl_figure_4.py learn --seeds 1 --seconds 60      # a trial
    python benchmarks/time_to_return/srl_figure_4.py tell
    python benchmarks/time_to_return/srl_figure_4.py draw

MPE's simple_tag, where chasers and a runner have a policy each and the chasers' returns count, and simple_spread, whose
agents share one policy, with TCG_EX beside it. Two actors, `max_lag` 0, 2 and 8. Steps and returns are of an agent, CPU
seconds of all processes, from the first update on. How runs are counted: `trainings.py`. Seeds were fixed before the
first run. Steps and returns are by one trial of each task, seed 91, which is not measured: simple_spread reached -20
after 240,000 steps of TCG_EX, simple_tag 10 after 144,000 of inline inference.
"""

from collections.abc import Iterator
from typing import Any

from trainings import OURS, Settings, Trainings, Update, by_ours, our_config
from worker_trainings import ACTS, ANSWERS, INLINE, TRAINS, by_layout, layout_of

ACTORS, LAGS = 2, (0, 2, 8)
CHASERS, RUNNERS = "chasers", "runners"
SIDES = {f"{way}, lag {lag}": (way, lag) for way in ("inline", "remote") for lag in LAGS}
TASKS = {
    "simple_tag": Settings("mpe2.simple_tag_v3", 360_000, 10, num_env=32, horizon=125, batch=500, entropy=0.01),
    "simple_spread": Settings("mpe2.simple_spread_v3", 360_000, -20, num_env=24, horizon=125, batch=500, entropy=0.01),
}
"""Environments of all actors: eight worlds. A rollout has five episodes of each."""


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    name = f"pettingzoo:{settings.env_id}"
    has_two = "simple_tag" in settings.env_id
    if side == OURS:
        from gmi_drl.tasks import make

        return by_ours(settings, seed, lambda seed: make(name, num_env=settings.num_env, seed=seed))
    way, lag = SIDES[side]
    layout = layout_of(name, settings.num_env // ACTORS, [workers_of(way, has_two)], lag)
    config = config_of(settings, seed, has_two)
    return by_layout(settings, layout, config, CHASERS if has_two else None)


def workers_of(way: str, has_two: bool) -> list[Any]:
    """The GMIs: actors, then for each policy a policy worker, if inference is remote, and a trainer."""
    others = [TRAINS] if way == "inline" else [ANSWERS, TRAINS]
    actors = [INLINE if way == "inline" else ACTS] * ACTORS
    return actors + ([(roles, name) for name in (CHASERS, RUNNERS) for roles in others] if has_two else others)


def config_of(settings: Settings, seed: int, has_two: bool) -> Any:
    """The settings, with the policies of simple_tag."""
    from gmi_drl.config.policies import PolicySection
    from gmi_drl.config.task_section import TaskSettings

    config = our_config(settings, seed)
    if not has_two:
        return config
    policies = {CHASERS: PolicySection(agents=("adversary_*",)), RUNNERS: PolicySection(agents=("agent_0",))}
    return config.model_copy(update={"task": TaskSettings(pad=True), "policies": policies})


TRAININGS = Trainings(__file__, "srl_figure_4", TASKS, (OURS, *SIDES), train, without={("simple_tag", OURS)})

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
