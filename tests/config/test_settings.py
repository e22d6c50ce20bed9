"""Every setting of every learner says what a run that goes on does with it, and the code goes by that."""

from typing import Annotated

import pytest
from other_settings import OF_LEARNER, RUN
from pydantic import Field

from gmi_drl.config.learners.rsl_rl_keys import RUN_SETTINGS
from gmi_drl.config.run_config import apply_settings, default_config
from gmi_drl.config.settings import LIVE, NETWORKS, Setting, leaves, places_of, refused_changes, without_effect
from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel
from gmi_drl.workload import TASK_SPECS

KINDS = tuple(OF_LEARNER)
FORMAT = {"version", "learner.kind"}


def usual(kind):
    return default_config(TASK_SPECS["ant"], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_says_what_a_run_that_goes_on_does_with_it(kind):
    assert [place for place, leaf in leaves(usual(kind)) if leaf.setting is None] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_walk_over_settings_sets_every_one(kind):
    """A new field needs another value there, or no walk would look at it."""
    translated = {f"learner.runner.{key}" for key in RUN_SETTINGS} if kind == "rsl_rl" else set()
    known = {place for place, _ in leaves(usual(kind))} - FORMAT
    assert known | translated == {*RUN, *OF_LEARNER[kind]}


@pytest.mark.parametrize(
    ("kind", "place", "text"),
    [
        (kind, place, text)
        for kind in KINDS
        for place, text in {**RUN, **OF_LEARNER[kind]}.items()
        if place.removeprefix("learner.runner.") not in RUN_SETTINGS  # translated, see test_train_checks.py
    ],
)
def test_another_value_is_taken_or_refused_as_its_field_says(kind, place, text):
    before = usual(kind)
    after, setting = apply_settings(before, [f"{place}={text}"]), dict(leaves(before))[place].setting
    refused = refused_changes(before, after, [place])
    assert bool(refused) == bool(setting.fixed) and all(line.startswith(f"{place}: the run has") for line in refused)
    condition = setting.only_with and place.rpartition(".")[0] + "." + setting.only_with[0]
    has_effect = not condition or dict(leaves(after))[condition].value == setting.only_with[1]
    assert bool(without_effect(after, [place])) == bool(setting.idle or not has_effect)
    assert refused_changes(before, before, []) == []


MAPPING = Setting(inner={"a": LIVE, "b": NETWORKS, "c": Setting(idle="is read by nobody")})


class Section(FileModel):
    schedule: Annotated[str, LIVE] = "adaptive"
    rate: Annotated[float, Setting(adapts=True)] = 1e-3
    aim: Annotated[float, Setting(only_with=("schedule", "adaptive"))] = 0.01
    sizes: Annotated[tuple[int, ...], NETWORKS] = (8,)
    told: Annotated[dict, MAPPING] = Field({})
    unmarked: int = 3


def test_what_a_run_has_adapted_is_not_set_to_what_it_began_with():
    """Whatever the schedule is now: it may have been another one before."""
    same, fixed, why = Section(), Section(schedule="fixed"), "the run has made 2e-4 of it"
    assert refused_changes(same, fixed, [], why) == [] == refused_changes(fixed, fixed, ["rate"])
    for before, now in ((same, same), (same, fixed), (fixed, fixed)):
        assert refused_changes(before, now, ["rate"], why) == [f"rate: {why}: leave it out, or give another value"]


def test_what_has_no_effect_is_told_where_it_is_given():
    assert without_effect(Section(schedule="fixed"), ["aim"]) == ["aim has no effect without schedule adaptive"]
    assert without_effect(Section(schedule="fixed"), ["rate"]) == without_effect(Section(), ["aim"]) == []
    assert without_effect(Section(told={"c": 1}), ["told.c.deep"]) == ["told.c: is read by nobody"]


def test_keys_of_a_mapping_are_told_apart():
    before, now = Section(told={"a": 1, "b": 1}), Section(told={"a": 2, "b": 2, "x": 3})
    assert [line.partition(":")[0] for line in refused_changes(before, now, [])] == ["told.b"]
    assert refused_changes(Section(), Section(unmarked=4), ["unmarked"]) == []
    assert places_of({"told": {"a": {}, "b": {"c": 1}}, "rate": 1}) == ["told.a", "told.b.c", "rate"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["iterations=16", "iterations=15"], "iterations is given twice, as 16 and as 15"),
        (["warp.njmax=5", "warp={nconmax: 3}"], "warp overrides warp.njmax, which is given before it"),
    ],
)
def test_a_setting_that_another_one_undoes_is_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        apply_settings(usual("ppo"), settings)
    assert apply_settings(usual("ppo"), ["warp={nconmax: 3}", "warp.njmax=5"]).warp.nconmax == 3
