import numpy as np
import pytest
import torch
from toy_worlds import Late, Leaving, MaskedLeaving, Pictured

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.run_config import RunConfig, default_config
from gmi_drl.config.task_section import TaskSettings
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.roles.training.evaluation import play_episodes
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks import check_task, make
from gmi_drl.tasks.adapters.pettingzoo import ParallelTask
from gmi_drl.workload.observations import parts_of
from gmi_drl.workload.spaces import Part, categorical

pytest.importorskip("gymnasium")


def worlds(count=2, settings=None, **more):
    return ParallelTask([Leaving(**more) for _ in range(count)], "toy", settings=settings or TaskSettings())


def test_agents_are_rows_world_by_world_and_the_critic_alone_sees_the_state():
    task = worlds(settings=TaskSettings(agent_id=True))
    parts = parts_of(task.obs, task.spec.observation)
    assert (task.num_env, task.spec.agents, task.spec.episode_steps) == (4, 2, 9)
    assert parts["policy"][:, 0].tolist() == [0, 1, 0, 1]
    assert parts["agent"].argmax(1).tolist() == [0, 1, 0, 1] and parts["state"].tolist() == [[0]] * 4
    network = default_config(task.spec).learner.network
    seen = [[part.name for part in network.seen(task.spec.observation, who)] for who in ("actor", "critic")]
    assert seen == [["policy", "agent"], ["policy", "agent", "state"]]


def test_a_state_that_is_an_image_stays_one():
    task = ParallelTask([Pictured()], "toy")
    task.step(torch.zeros(2, 1))
    state = parts_of(task.obs, task.spec.observation)["state"]
    assert (state.dtype, state.shape) == (torch.uint8, (2, 7, 5, 5)) and (state == 201).all()
    assert task.spec.observation.parts[-1] == Part("state", (7, 5, 5), "image", critic_alone=True)


def test_a_state_is_left_out_or_asked_for():
    assert [part.name for part in worlds(settings=TaskSettings(state=False)).spec.observation.parts] == ["policy"]
    assert worlds(settings=TaskSettings(state=True)).spec.observation.parts[-1].name == "state"
    with pytest.raises(UsageError, match=r"toy has no state \(NotImplementedError: \): leave task\.state out"):
        worlds(settings=TaskSettings(state=True), has_state=False)


def test_rows_of_agents_that_have_left_are_not_valid_until_the_world_begins_anew():
    task = worlds(count=1)
    told = []
    for step in range(6):
        obs, reward, terminated, _, info = task.step(torch.tensor([[1.0], [2.0]]))
        told.append((info["valid"].tolist(), terminated.tolist(), reward.tolist()))
        if step == 3:
            assert info["final_obs"][1, 0].item() == pytest.approx(1.4) and obs[1, 0] == 1
    both, alone = ([True, True], [1.0, 2.0]), ([False, True], [0.0, 2.0])
    assert [(valid, reward) for valid, _, reward in told] == [both, both, alone, alone, both, both]
    assert [ends for _, ends, _ in told][:4] == [[False, False], [True, False], [False, False], [False, True]]


def test_returns_are_of_each_agent_and_leave_out_what_is_not_valid():
    task = worlds()
    sums = play_episodes(task, lambda task, begins, reward, valid: torch.ones(task.num_env, 1))
    assert sums.tolist() == [4, 2 * (2 + 4), 2 * (2 + 4)]


def test_a_policy_learns_from_all_agents():
    task = worlds()
    small = {"hidden": (8,), "horizon": 8, "minibatches": 2, "epochs": 1}
    config = RunConfig(learner=default_config(task.spec).learner.model_copy(update=small))
    replica = PPOReplica(task.spec, config, NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=0)
    replica.attach_task(task, seed=1)
    for _ in range(3):
        stats = replica.iterate(lambda: Decision.GO_ON)
    assert stats.term_sums[0] == 4  # worlds of four steps that ended within eight
    assert stats.term_sums[1] == stats.return_sum
    assert all(np.isfinite(value) for value in replica.metrics().values())


def test_unlike_agents_are_padded_and_their_actions_masked():
    with pytest.raises(UsageError, match=r"agent_0 sees .*2 numbers.*; agent_1 .*one of 5: --set task\.pad=true"):
        worlds(seen=(2, 3), choices=(3, 5))
    task = worlds(seen=(2, 3), choices=(3, 5), settings=TaskSettings(pad=True), has_state=False)
    parts = parts_of(task.obs, task.spec.observation)
    assert parts["policy"].shape == (4, 3) and parts["policy"][0, 2] == 0 and task.spec.action == categorical(5)
    assert parts["action_mask"].sum(1).tolist() == [3, 5, 3, 5]
    task.step(torch.full((4, 1), 4.0))  # the toy refuses an action that an agent does not have


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(UsageError, match="toy has no agents"):
        worlds(leaves=(), seen=(), choices=())
    with pytest.raises(UsageError, match="part named agent or state of their own"):
        import gymnasium

        world = Leaving()
        world.observation_space = lambda agent: gymnasium.spaces.Dict(state=gymnasium.spaces.Box(-9, 9, (2,)))
        world.reset = lambda seed=None: ({key: {"state": np.zeros(2)} for key in world.possible_agents}, {})
        world.steps = 0
        ParallelTask([world], "toy")


def test_a_world_that_fails_names_itself_and_its_last_words():
    task = worlds(fails_at=2)
    task.step(torch.zeros(4, 1))
    with pytest.raises(GmiError, match=r"toy: world 0, step: RuntimeError: the ball is gone \(.*toy_worlds"):
        task.step(torch.zeros(4, 1))


def test_worlds_draw_themselves_and_are_closed():
    task = worlds()
    task.step(torch.zeros(4, 1))
    assert task.draw().shape == (2, 6, 4, 3) and (task.draw() == 1).all()
    made = [*task._worlds]
    task.close()
    task.close()
    assert all(world.closed for world in made)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mpe2.nothing_v3", "the module mpe2.nothing_v3 is not installed.*install mpe2"),
        ("json", "has neither parallel_env nor env"),
        ("pettingzoo.classic.tictactoe_v3", "its agents act in turns, and PettingZoo does not convert it"),
        ('mpe2.simple_spread_v3{"foo": 1}', "cannot be made: TypeError.*foo"),
    ],
)
def test_names_that_make_no_task_are_refused(name, message):
    pytest.importorskip("mpe2", reason="mpe2 is not installed")
    with pytest.raises(GmiError, match=message):
        make(f"pettingzoo:{name}", num_env=2)


def test_simple_spread_keeps_the_contract_and_has_whole_worlds():
    pytest.importorskip("mpe2", reason="mpe2 is not installed")
    name = "pettingzoo:mpe2.simple_spread_v3"
    check_task(lambda seed: make(name, num_env=6, seed=seed), steps=60)
    task = make(name, num_env=4)
    assert (task.num_env, task.spec.agents, task.spec.episode_steps) == (6, 3, 25)
    assert [part.shape for part in task.spec.observation.parts] == [(18,), (54,)]


def test_an_agent_that_left_with_a_mask_of_zeros_is_back_in_the_next_episode():
    task, told = ParallelTask([MaskedLeaving(has_state=False)], "toy"), []
    for _ in range(8):
        *_, info = task.step(torch.zeros(2, 1))
        assert not info["bad"].any()
        told.append(info["valid"].tolist())
    assert told == [[True, True], [True, True], [False, True], [False, True]] * 2


def test_worlds_that_begin_without_an_agent_are_refused():
    with pytest.raises(UsageError, match="toy: world 0 begins without all agents: agent_1 of its possible"):
        ParallelTask([Late()], "toy")
