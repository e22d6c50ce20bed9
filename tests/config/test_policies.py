"""Which agents have which policy."""

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.policies import PolicySection, agents_of
from gmi_drl.config.run_config import RunConfig, policy_config
from gmi_drl.errors import UsageError
from gmi_drl.files import parse

NAMES = ("adversary_0", "adversary_1", "agent_0")


def section(*agents, **more):
    return PolicySection(agents=agents, **more)


def test_patterns_give_each_agent_one_policy():
    policies = {"runners": section("agent_*"), "chasers": section("adversary_0", "adversary_[1-9]", "adversary_1")}
    assert agents_of(policies, NAMES, "tag") == {"runners": (2,), "chasers": (0, 1)}


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({"a": ("*",), "b": ("agent_0",)}, "agent_0 is an agent of a and b"),
        ({"a": ("agent_0",)}, "2 agents of tag have no policy: adversary_0, adversary_1"),
        ({"a": ("*",), "b": ()}, "b.agents is empty: name some of adversary_0, adversary_1, agent_0, or leave b"),
        ({"a": ("*", "x*")}, r"policies.a.agents: 'x\*' matches none of adversary_0, adversary_1, agent_0"),
    ],
    ids=["two", "none", "empty", "nothing"],
)
def test_agents_of_two_policies_or_of_none_are_refused(policies, words):
    with pytest.raises(UsageError, match=words):
        agents_of({name: section(*agents) for name, agents in policies.items()}, NAMES, "tag")


@pytest.mark.parametrize("name", ["..", ".", "a/b", "", "a b", "a\n"])
def test_names_that_no_folder_may_have_are_refused(name):
    told = r"policies: names of policies must be letters, digits, _ and -, not .*: folders have them"
    with pytest.raises(UsageError, match=told):
        parse(RunConfig, {"policies": {name: {"agents": ["*"], "checkpoint": "run"}}}, "config.yaml")
    assert parse(RunConfig, {"policies": {"a-B_1": {"agents": ["*"]}}}, "config.yaml").policies


def test_tasks_that_do_not_name_agents_have_one_policy():
    with pytest.raises(UsageError, match="ant does not name its agents"):
        agents_of({"a": section("*")}, (), "ant")


def test_a_policy_has_the_learner_of_the_run_but_for_what_it_sets():
    config = RunConfig(learner=PPOConfig(horizon=7), policies={"a": section("*", learner={"gamma": 0.5})})
    own = policy_config(config, "a")
    assert (own.learner.horizon, own.learner.gamma, own.policies) == (7, 0.5, {})
    alone = policy_config(config.model_copy(update={"checkpoints_kept": 1}), "a")
    assert own.checkpoint_every_s is None and alone.checkpoints_kept == 2, "policies save in the same iterations"
    wrong = RunConfig(policies={"a": section("*", learner={"gama": 0.5})})
    with pytest.raises(UsageError, match="gama"):
        policy_config(wrong, "a")


def test_a_frozen_policy_with_a_learner_is_refused():
    with pytest.raises(ValueError, match="a policy with a checkpoint learns nothing: leave its learner out"):
        section("*", checkpoint="run", learner={"gamma": 0.5})
