import gymnasium
import pytest

from gmi_drl.benchmarks.cases.learning import hidden_velocities, memories
from gmi_drl.launch.task_info import task_spec


def test_velocities_are_hidden():
    env = gymnasium.make("HiddenCartPole-v1")
    obs, _ = env.reset(seed=0)
    whole = env.unwrapped.state  # positions and velocities in turn
    assert env.observation_space.shape == obs.shape == (2,) and obs == pytest.approx([whole[0], whole[2]])
    assert env.spec.max_episode_steps == hidden_velocities.LIMIT


def test_sides_differ_in_their_memory_alone():
    configs = {memory: memories.config_of(memory).learner for memory in memories.OURS.values()}
    plain = configs["none"].model_dump()
    for memory in ("gru", "lstm"):
        differs = {name for name, value in configs[memory].model_dump().items() if value != plain[name]}
        assert configs[memory].memory == memory and differs == {"memory", "memory_size", "sequence"}


def test_an_agent_and_a_trainer_with_a_memory_share_a_core():
    layout, learner = memories.apart(), memories.config_of(memories.APART_MEMORY, "a3c").learner
    assert [gmi.roles for gmi in layout.gmis] == [("simulator", "agent"), ("trainer",)]
    assert {gmi.cores for gmi in layout.gmis} == {(0,)} and layout.num_env == memories.NUM_ENV
    assert learner.memory == "gru" and learner.units_of(memories.NUM_ENV) >= learner.minibatches
    spec = task_spec(f"gymnasium:{memories.ENVIRONMENT}")
    assert learner.check(spec, None) == []
