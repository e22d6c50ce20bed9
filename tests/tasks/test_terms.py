"""What rewards are made of: for every task of ours the terms add up to the reward, in states met and in any other."""

from dataclasses import replace

import pytest
import torch
from conftest import tiny_config, tiny_layout, two_cores

from gmi_drl.config.learners.rsl_rl import RslRlConfig, runner_config
from gmi_drl.errors import UsageError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.run.checkpoint import read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.tasks import TASKS, SimTask, make, make_sim
from gmi_drl.tasks.terms import RewardTerms, WorldReturns, replaced

NUM_ENV, STEPS = 32, 60
SPREADS = (0.0, 0.05, 0.5, 5.0)
"""Noise on what the functions are given: near the states of the task, and far from them."""

GYMNASIUMS = {"reward_forward", "reward_survive", "reward_ctrl", "reward_contact"}


def steps_of(definition):
    """What `reward_done` was given in a rollout of random actions."""
    torch.set_num_threads(1)
    met = []

    def remember(obs, action, before, after):
        fields = [{name: value.clone() for name, value in fields.items()} for fields in (before, after)]
        met.append((obs.clone(), action.clone(), *fields))
        return definition.reward_done(obs, action, before, after)

    task = SimTask(replace(definition, reward_done=remember), make_sim(definition, NUM_ENV), seed=0)
    random = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        task.step(torch.randn(NUM_ENV, definition.spec.action.size, generator=random))
    return met


def noisy(values, spread, random):
    if isinstance(values, dict):
        return {name: noisy(value, spread, random) for name, value in values.items()}
    return values + spread * torch.randn(values.shape, generator=random, dtype=values.dtype)


@pytest.mark.parametrize("name", TASKS)
def test_terms_add_up_to_the_reward(name):
    definition, random = TASKS[name], torch.Generator().manual_seed(1)
    seen = {}
    for met in steps_of(definition):
        for spread in SPREADS:
            given = [noisy(values, spread, random) for values in met]
            reward, _ = definition.reward_done(*given)
            terms = definition.reward_terms(*given)
            assert all(term.shape == reward.shape and term.dtype == reward.dtype for term in terms.values())
            size = 1 + sum(term.abs() for term in terms.values())  # far away, terms of thousands cancel out
            torch.testing.assert_close(sum(terms.values()) / size, reward / size, rtol=0, atol=1e-5)
            for term_name, term in terms.items():
                seen[term_name] = seen.get(term_name, False) or bool(term.any())
    if name != "shadow_hand":  # which reaches no goal by chance; see below
        assert all(seen.values()), f"never other than 0: {seen}"


def test_a_reached_goal_is_a_term():
    definition = TASKS["shadow_hand"]
    obs, *rest = steps_of(definition)[0]
    obs[:, 92:96] = torch.tensor([1.0, 0.0, 0.0, 0.0])
    reward, _ = definition.reward_done(obs, *rest)
    terms = definition.reward_terms(obs, *rest)
    assert (terms["success_bonus"] == 250).all()
    torch.testing.assert_close(sum(terms.values()), reward, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in TASKS if name.startswith("mujoco:")])
def test_names_are_gymnasiums(name):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name.partition(":")[2])
    env.reset(seed=0)
    info = env.step(env.action_space.sample())[4]
    terms = TASKS[name].reward_terms(*steps_of(TASKS[name])[0])
    assert {*terms} == {key for key in info if key.startswith("reward_")} and {*terms} <= GYMNASIUMS


def test_a_task_that_sums_terms_is_the_same_and_their_sums_are_the_rewards():
    told, plain = make("ant", num_env=NUM_ENV, tells_terms=True), make("ant", num_env=NUM_ENV)
    assert plain.reward_terms is None
    for _ in range(2):
        rewards = torch.zeros((), dtype=torch.float64)
        for index in range(20):
            action = torch.randn(NUM_ENV, 8, generator=torch.Generator().manual_seed(index))
            action[3] = float("nan") if index == 4 else action[3]  # a bad world has no reward
            outcome, same = told.step(action), plain.step(action)
            assert all(torch.equal(one, other) for one, other in zip(outcome[:4], same[:4], strict=True))
            rewards += outcome[1].sum(dtype=torch.float64)
        sums = told.reward_terms.pop_sums()
        assert sums.dtype == torch.float64 and sums.sum().item() == pytest.approx(rewards.item(), abs=1e-3)
    assert told.reward_terms.names[:2] == ("progress", "alive") and not told.reward_terms.pop_sums().any()


def test_sums_leave_out_a_mask_and_means_have_names():
    terms = RewardTerms(("a", "b"), torch.device("cpu"))
    terms.add({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([5.0, float("nan")])}, torch.tensor([False, True]))
    terms.add({"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([5.0, 6.0])}, torch.zeros(2, dtype=torch.bool))
    assert terms.row(terms.pop_sums().tolist(), 4) == {"reward_terms": {"a": 1.0, "b": 4.0}}


def test_worlds_tell_the_return_of_all_agents_and_of_one_of_each_kind():
    returns = WorldReturns(["adversary_0", "agent_0", "agent_1"], torch.device("cpu"))
    returns.add_worlds(torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.0, 0.0]]))
    sums = returns.pop_sums().tolist()
    wanted = {"world": 5.0, "adversary": 2.0, "agent": 1.5}
    assert returns.row(sums, 999) == {"world_returns": wanted}
    assert RewardTerms(returns.names, torch.device("cpu")).row(sums, 999) == {"world_returns": wanted}
    assert returns.row(returns.pop_sums().tolist(), 999) == {}  # no world has ended


def test_alike_agents_tell_the_return_of_their_world_alone():
    assert WorldReturns(["agent_0", "agent_1"], torch.device("cpu")).names == ("worlds", "world")


def test_another_term_takes_the_place_of_all():
    terms = replaced({"a": torch.tensor([1.0, 2.0])}, torch.tensor([False, True]), "fallen", -2.0)
    assert {name: term.tolist() for name, term in terms.items()} == {"a": [1.0, 0.0], "fallen": [0.0, -2.0]}


def test_other_libraries_simulators_sum_no_terms():
    with pytest.raises(UsageError, match="gymnasium:HalfCheetah-v5 does not report"):
        make("gymnasium:HalfCheetah-v5", num_env=1, tells_terms=True)


@two_cores
@pytest.mark.parametrize("kind", ["ppo", "rsl_rl"])
def test_rows_have_the_means_over_all_gmis_and_the_training_is_the_same(tmp_path, kind):
    if kind == "rsl_rl":
        pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    ours, digests = tiny_config(iterations=2).learner, {}
    learner = RslRlConfig(runner=runner_config(ours)) if kind == "rsl_rl" else ours
    for tells in (False, True):
        folder = RunFolder(tmp_path / str(tells))
        folder.create()
        outcome = train(resolve(tiny_layout(2), tiny_config(iterations=2, reward_terms=tells, learner=learner), folder))
        digests[tells] = read_index(outcome.checkpoint)["learner"]
        for row in read_metrics(folder.metrics_file):
            assert ("reward_terms" in row) is tells
            if tells:
                assert sum(row["reward_terms"].values()) == pytest.approx(row["reward_mean"], abs=1e-5)
                assert row["reward_terms"]["alive"] == pytest.approx(0.5, abs=0.05)
    assert digests[True] == digests[False]
