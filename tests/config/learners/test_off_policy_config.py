"""The settings of DQN and SAC: sizes that do not go together, tasks that they do not take, memory."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import yaml

from gmi_drl.algo.dqn import make_dqn_agent
from gmi_drl.algo.sac import make_sac_agent
from gmi_drl.config.learners import DQNConfig, SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig, load_config
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml, parse
from gmi_drl.launch.job import require_minibatches
from gmi_drl.layout.channels import Channels
from gmi_drl.replay.selectors.host_sum_tree import HostSumTree
from gmi_drl.replay.selectors.sum_tree import SumTree
from gmi_drl.replay.valid_windows import ValidWindows
from gmi_drl.roles.replay.make_ring import make_ring
from gmi_drl.workload import AGREED, TASK_SPECS
from gmi_drl.workload.spaces import Action, Observation, Part, categorical, image, vector

ANT, CPU = TASK_SPECS["ant"], torch.device("cpu")
CART = replace(ANT, name="cart", observation=vector(4), action=categorical(2))
GAME = replace(ANT, name="game", observation=image(3, 12, 12), action=categorical(3))
VERSION_BYTES = 8


@pytest.mark.parametrize(
    ("config", "task", "words"),
    [
        (DQNConfig(), ANT, "dqn takes one choice .* takes 8 numbers: take --algo sac"),
        (DQNConfig(), replace(ANT, action=categorical(2, 3)), "one choice .*--algo ppo"),
        (SACConfig(), CART, "sac takes numbers .* take --algo dqn"),
        (SACConfig(), replace(ANT, action=Action(2, (3,))), "sac takes numbers .*--algo ppo"),
        (SACConfig(), replace(ANT, observation=image(3, 12, 12)), "sac takes vectors.*--algo ppo"),
        (SACConfig(hidden=()), ANT, "needs a hidden layer"),
        (DQNConfig(features=8), CART, "features is for images"),
        (SACConfig(replay=ReplaySettings(size=400, min_size=1, n_step=400)), ANT, "n_step is 400, but 400 steps"),
    ],
)
def test_what_cannot_be_is_told_with_the_numbers_and_the_remedy(config, task, words):
    (mistake,) = config.check(task, None)
    assert re.search(words, mistake)


def test_a_run_of_before_is_read_without_the_setting_that_had_no_effect(tmp_path):
    config, path = RunConfig(learner=SACConfig(replay=ReplaySettings(size=400, min_size=1))), tmp_path / "config.yaml"
    written = yaml.safe_load(dump_yaml(config))
    written["learner"]["replay"]["update_size"] = 500
    path.write_text(yaml.dump(written))
    assert load_config(path) == config
    with pytest.raises(UsageError, match="update_size: unknown key"):
        parse(RunConfig, written, "set")


@pytest.mark.parametrize(
    ("sizes", "num_envs", "words"),
    [
        ({"min_size": 800}, [4, 4], None),
        ({"min_size": 801}, [4, 4], "min_size is 801, of which a GMI with 4 of 8 environments needs 401, .* has 400"),
        ({"min_size": 500}, [4], "min_size is 500, of which a GMI with 4 of 4 environments needs 500"),
        ({"min_size": 1, "batch": 800}, [4, 4], None),
        ({"min_size": 1, "batch": 500}, [4], "batch is 500"),
    ],
)
def test_a_gmis_part_must_fit_its_ring(sizes, num_envs, words):
    batch = sizes.pop("batch", 8)
    config = SACConfig(batch=batch, horizon=4, replay=ReplaySettings(size=400, **sizes))
    gmis = [SimpleNamespace(num_env=num_env) for num_env in num_envs]
    layout = SimpleNamespace(num_env=sum(num_envs), channels=None, with_role=lambda role: gmis)
    found = config.mistakes_in(layout)
    assert (found == []) if words is None else re.search(words, *found)


@pytest.mark.parametrize(
    ("replay", "words"),
    [
        ({"min_size": 800}, []),
        ({"min_size": 802}, ["min_size is 802, of which a GMI with 8 of 16 environments needs 401, but"]),
        ({"server": "here:1/steps"}, ["server is for GMIs that act and train"]),
        ({"stacks": "first"}, ["stacks is for GMIs that act and train"]),
        ({"n_step": 4}, []),
        ({"n_step": 5}, ["n_step is 5, and rollouts have 4 steps"]),
        ({"n_step": 5, "next_obs": "twice"}, []),
    ],
)
def test_rings_of_rollouts_are_the_trainers(replay, words):
    """Three agents of 4 environments send two rollouts each time to each of two trainers."""
    config = SACConfig(batch=8, horizon=4, replay=ReplaySettings(**{"size": 400, "min_size": 1} | replay))
    roles = {"simulator": [SimpleNamespace(num_env=4)] * 3, "trainer": [SimpleNamespace(num_env=0)] * 2}
    layout = SimpleNamespace(num_env=12, channels=Channels(), with_role=roles.get)
    found = config.mistakes_in(layout)
    assert len(found) == len(words) and all(map(re.search, words, found))


def test_a_rollout_for_replay_has_terminations_and_what_follows_if_that_is_stored():
    once, twice = (
        SACConfig(horizon=4, replay=ReplaySettings(next_obs=next_obs)).rollout_form(ANT, 3)
        for next_obs in ("once", "twice")
    )
    names = ["obs", "action", "reward", "done", "valid", "terminated", "last_obs", "delta", "sums", "facts"]
    assert [kind.name for kind in once.kinds] == names
    assert [kind.name for kind in twice.kinds] == [*names[:6], "next_obs", *names[6:]]
    assert twice.kinds[6] == replace(twice.kinds[0], name="next_obs")


def test_a_checkpoint_grows_by_what_the_ring_still_gets():
    config = SACConfig(horizon=4, replay=ReplaySettings(size=400, min_size=1))
    ring = make_ring(ANT, config, 4, 4, CPU, seed=0)
    whole = ring.total * (config.step_bytes(ANT) + VERSION_BYTES)  # those of rollouts have one
    assert ring.storage.bytes <= whole
    assert [config.growth_bytes(ANT, rows) for rows in (400, 300, 0)] == [whole, whole * 3 // 4, 0]
    not_saved = config.model_copy(update={"replay": ReplaySettings(size=400, min_size=1, saved=False)})
    assert not_saved.growth_bytes(ANT, 400) == 0


def test_what_draws_on_a_gpu_take_is_counted_there_also_if_steps_are_on_the_host():
    rows = 2**20
    windows, tree = ValidWindows(rows, CPU), SumTree(rows, CPU)
    found = windows.is_valid.nbytes + windows.counts.nbytes
    for sampler, taken in (("uniform", found), ("prioritized", found + sum(level.nbytes for level in tree.levels))):
        config = SACConfig(replay=ReplaySettings(size=rows, sampler=sampler, placement="pinned"))
        on_device, on_host = config.ring_bytes(ANT, 1)
        assert taken <= on_device < 1.1 * taken and on_host == rows * config.step_bytes(ANT)
        on_gpu = config.model_copy(update={"replay": ReplaySettings(size=rows, sampler=sampler)})
        assert on_gpu.ring_bytes(ANT, 1) == (on_device + on_host, 0)


def test_what_draws_on_a_cpu_take_is_counted():
    rows = 2**20
    taken = ValidWindows(rows, CPU).is_valid.nbytes + sum(level.nbytes for level in HostSumTree(rows).levels)
    config = SACConfig(replay=ReplaySettings(size=rows, sampler="prioritized"))
    draws = config.ring_bytes(ANT, 1, on_gpu=False)[0] - rows * config.step_bytes(ANT)
    assert taken <= draws < 1.1 * taken
    uniform = SACConfig(replay=ReplaySettings(size=rows))
    assert uniform.ring_bytes(ANT, 1, on_gpu=False) == (rows * uniform.step_bytes(ANT), 0)


def test_rows_that_follow_rollouts_come_on_top_of_a_rings_size():
    once = SACConfig(horizon=4, replay=ReplaySettings(size=400))
    twice = SACConfig(horizon=4, replay=ReplaySettings(size=400, next_obs="twice"))
    assert [once.rows_of_rollouts(steps) for steps in (1, 4, 5, 400)] == [2, 5, 7, 500]
    assert twice.rows_of_rollouts(5) == 5
    for learner, rows in ((twice, 400), (once, 500)):
        own, of_rollouts = (learner.ring_bytes(ANT, 4, of_rollouts=is_of, on_gpu=False)[0] for is_of in (False, True))
        assert own == 400 * learner.step_bytes(ANT)
        assert of_rollouts == rows * (learner.step_bytes(ANT) + VERSION_BYTES), "each has its version, too"


def test_beta_rises_evenly():
    replay = ReplaySettings(sampler="prioritized", beta=0.4, beta_steps=100)
    assert [round(replay.beta_at(steps), 3) for steps in (0, 50, 100, 900)] == [0.4, 0.7, 1.0, 1.0]
    assert ReplaySettings(beta=0.4).beta_at(900) == 0.4


def test_there_may_be_more_updates_than_steps():
    config = SACConfig(horizon=4, updates_per_step=20.0)
    require_minibatches(config, 1)


def test_tasks_that_they_take_have_no_mistakes():
    masked = Observation((Part("joints", (4,)), Part("allowed", (2,), "mask")))
    assert SACConfig.for_task(ANT).check(ANT, None) == []
    for task in (CART, GAME, replace(CART, observation=masked)):
        assert DQNConfig.for_task(task).check(task, None) == []


@pytest.mark.parametrize("settings", [{}, {"next_obs": "twice"}, {"sampler": "prioritized"}])
@pytest.mark.parametrize(("task", "num_env"), [(ANT, 8), (GAME, 64)])
def test_memory_counts_the_ring(settings, task, num_env):
    config = DQNConfig(replay=ReplaySettings(size=4096, **settings))
    with_ring, without = (
        c.memory_bytes(task, num_env)
        for c in (
            config,
            config.model_copy(update={"replay": config.replay.model_copy(update={"placement": "pinned"})}),
        )
    )
    ring = make_ring(task, config, num_env, num_env, CPU, seed=0)
    assert ring.storage.bytes <= with_ring - without <= 1.3 * ring.storage.bytes + 16 * ring.total


def test_a_ring_has_room_for_two_iterations_of_any_number_of_environments():
    config = SACConfig(horizon=8, replay=ReplaySettings(size=1000, n_step=3))
    assert [config.ring_steps(num_env) for num_env in (1, 10, 500, 4000)] == [1000, 100, 16, 16]


@pytest.mark.parametrize(
    ("config", "task"),
    [
        (DQNConfig(), CART),
        (DQNConfig(dueling=False, hidden=(8, 4)), CART),
        (DQNConfig(hidden=(), stream=6), GAME),
    ],
)
def test_the_bucket_has_as_many_numbers_as_the_networks_of_dqn(config, task):
    agent = make_dqn_agent(task, config, CPU, seed=0)
    weights = sum(parameter.numel() for parameter in agent.policy.parameters_in_order())
    assert config.bucket_bytes(task) == 4 * (weights + AGREED)


@pytest.mark.parametrize("config", [SACConfig(), SACConfig(hidden=(8, 4, 3), layer_norm=True)])
def test_the_bucket_has_as_many_numbers_as_the_networks_of_sac(config):
    agent = make_sac_agent(ANT, config, CPU, seed=0)
    weights = sum(parameter.numel() for parameter in agent.policy.parameters_in_order())
    assert config.bucket_bytes(ANT) == 4 * (weights + AGREED)


def test_stacks_of_pictures_are_stored_once():
    plain, once = (DQNConfig(replay=ReplaySettings(stacks=stacks)) for stacks in (None, "first"))
    pictures, *size = GAME.observation.shape
    assert plain.step_bytes(GAME) - once.step_bytes(GAME) == (pictures - 1) * size[0] * size[1]
    small = once.model_copy(update={"replay": once.replay.model_copy(update={"size": 100, "min_size": 10})})
    ring = make_ring(GAME, small, 2, 2, torch.device("cpu"), 0)
    assert ring.stacks[0].depth == pictures and ring.storage.signature.step_bytes <= once.step_bytes(GAME)
    assert not once.check(GAME, None)
    assert "is for images that are stacks of pictures" in once.check(CART, None)[0]
    twice = DQNConfig(replay=ReplaySettings(stacks="zeros", next_obs="twice"))
    assert "stores pictures once" in twice.check(GAME, None)[0]


@pytest.mark.parametrize("task", [CART, GAME])
def test_dqn_takes_a_replay_server_with_its_own_settings_and_refuses_a_size(task):
    usual = DQNConfig.for_task(task)
    with_server = usual.replay.model_copy(update={"server": "127.0.0.1:5000/steps"})
    assert usual.model_copy(update={"replay": with_server}).check(task, None) == []
    sized = usual.model_copy(update={"replay": with_server.model_copy(update={"size": 5000})})
    (mistake,) = sized.check(task, None)
    assert mistake.startswith("learner.replay.size has no effect with learner.replay.server")
