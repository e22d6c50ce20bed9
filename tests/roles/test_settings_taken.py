"""What a run that goes on does with each setting of its learner, by the weights that it learns."""

from functools import cache

import pytest
from other_settings import OF_LEARNER
from walk_settings import NEED_MORE, base_of, learnt

from gmi_drl.config.run_config import apply_settings
from gmi_drl.config.settings import leaves

OF_NO_WEIGHTS = {
    f"learner.runner.{key}" for key in ("check_for_nan", "logger", "run_name", "wandb_project", "neptune_project")
} | {"learner.replay.placement", "learner.replay.saved", "learner.replay.offline_share"}
OF_ACTING = {("sequence", "learner.horizon")}
"""What is acted is not learnt from."""


@cache
def unchanged(kind, template=None):
    """What the same run learns by the same settings."""
    return learnt(base_of(kind), base_of(kind), goes_on=True, template=template)


def live(kind):
    """Settings of which another value is taken, with one."""
    counts = {place for place, leaf in leaves(base_of(kind)) if not (leaf.setting.fixed or leaf.setting.idle)}
    counts -= {f"learner.runner.{key}" for key in NEED_MORE} | NEED_MORE
    return [(kind, place, text) for place, text in OF_LEARNER[kind].items() if place in counts]


@pytest.mark.parametrize(("kind", "place", "text"), [case for kind in OF_LEARNER for case in live(kind)])
def test_a_run_that_goes_on_learns_otherwise_by_each_setting_that_counts(kind, place, text):
    if kind == "rsl_rl":
        pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    other = learnt(base_of(kind), apply_settings(base_of(kind), [f"{place}={text}"]), goes_on=True)
    assert (other == unchanged(kind)) == (place in OF_NO_WEIGHTS or (kind, place) in OF_ACTING)


def test_a_run_with_memories_goes_on_with_another_sequence():
    base = base_of("ppo")
    base = base.model_copy(update={"learner": base.learner.model_copy(update={"memory": "gru", "memory_size": 8})})
    same, other = (
        learnt(base, apply_settings(base, [f"learner.sequence={length}"]), goes_on=True) for length in (4, 2)
    )
    assert same != other


@pytest.mark.parametrize(("kind", "place", "text"), live("ppo"))
def test_settings_are_read_by_a_run_with_dedicated_gmis(kind, place, text):
    config = apply_settings(base_of(kind), [f"{place}={text}"])
    assert learnt(base_of(kind), config, goes_on=True, template="TDG_EX") != unchanged(kind, "TDG_EX")


@pytest.mark.parametrize("kind", ["ppo", "a3c"])
def test_what_only_a_new_run_begins_with_changes_nothing_later(kind):
    other = apply_settings(base_of(kind), ["learner.init_std=0.9"])
    assert learnt(base_of(kind), other, goes_on=True) == unchanged(kind)
