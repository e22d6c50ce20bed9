from types import SimpleNamespace

import pytest
import torch
from conftest import tiny_config

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.errors import UsageError
from gmi_drl.roles.serving.player import Episode, Player, initial_agent, load_agent
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.tasks import make
from gmi_drl.workload import TASK_SPECS, TaskSpec
from gmi_drl.workload.spaces import continuous, vector

CONFIG, SPEC, CPU = tiny_config(seed=5), TASK_SPECS["ant"], torch.device("cpu")
OBS = torch.randn(3, 60, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def replica():
    """Has learnt a little."""
    replica = PPOReplica(SPEC, CONFIG, NoReduction(), sample_share=1.0, device=CPU, seed=0)
    replica.attach_task(make("ant", num_env=8), seed=0)
    for _ in range(3):
        replica.iterate(lambda: Decision.GO_ON)
    return replica


def save(folder, replica, iteration=3, **changes):
    folder.checkpoints.mkdir(parents=True, exist_ok=True)
    draft = checkpoint.draft(folder.checkpoints, iteration)
    checkpoint.write_part(draft, "learner", replica.learner_state() | changes)
    facts = checkpoint.NO_TRAINING | {"iteration": iteration}
    return checkpoint.commit(folder.checkpoints, iteration, facts, kept=2)


def test_the_loaded_agent_acts_as_the_trained_one(replica, tmp_path):
    folder = RunFolder(tmp_path)
    save(folder, replica)
    agent = load_agent(folder, SPEC, CONFIG)
    assert agent.iteration == 3
    noise = torch.randn(3, 8)
    with torch.no_grad():
        sample, mean = replica.learner.agent.policy.act(replica.learner.agent.normaliser(OBS), noise)
    assert torch.equal(agent.act(OBS), mean) and torch.equal(agent.act(OBS, noise), sample)
    assert not torch.equal(mean, initial_agent(SPEC, CONFIG).act(OBS))


def test_the_initial_agent_is_that_of_a_training():
    replica = PPOReplica(SPEC, CONFIG, NoReduction(), sample_share=1.0, device=CPU, seed=0)
    with torch.no_grad():
        assert torch.equal(initial_agent(SPEC, CONFIG).act(OBS), replica.learner.agent.act(OBS))


def test_the_newest_checkpoint_is_played_even_if_another_takes_its_place_meanwhile(replica, tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    gone = save(folder, replica)
    save(folder, replica, iteration=4)
    lists = [[gone.with_name("000002")], checkpoint.list_checkpoints(folder.checkpoints)]
    monkeypatch.setattr(checkpoint, "list_checkpoints", lambda path: lists.pop(0))
    assert load_agent(folder, SPEC, CONFIG).iteration == 4


def test_a_broken_checkpoint_is_an_error(replica, tmp_path):
    saved = save(RunFolder(tmp_path), replica)
    (saved / "learner.safetensors").write_bytes(b"")
    with pytest.raises(UsageError, match=r"learner\.safetensors is missing or was changed"):
        load_agent(RunFolder(tmp_path), SPEC, CONFIG)


def test_a_run_without_a_checkpoint_and_other_sizes_are_refused(replica, tmp_path):
    with pytest.raises(UsageError, match="no complete checkpoint yet"):
        load_agent(RunFolder(tmp_path), SPEC, CONFIG)
    save(RunFolder(tmp_path), replica, parameters=torch.zeros(7))
    with pytest.raises(UsageError, match=r"holds 7 parameters, but ant with layers of .* has 114"):
        load_agent(RunFolder(tmp_path), SPEC, CONFIG)


class Script:
    """Two worlds whose steps are given: reward, terminated, truncated, bad, valid of each."""

    def __init__(self, *steps):
        self.steps = iter(steps)
        self.spec = TaskSpec("script", "SC", vector(1), continuous(1), (2,), episode_steps=9, step_s=1.0)
        self.num_env, self.obs = 2, torch.zeros(2, 1)

    def step(self, action):
        reward, *flags = (torch.tensor(column) for column in zip(*next(self.steps), strict=True))
        terminated, truncated, bad, valid = (flag.bool() for flag in flags)
        return self.obs, reward, terminated, truncated, {"final_obs": self.obs, "bad": bad, "valid": valid}


def test_episodes_have_their_environment_and_end():
    going, fall = (1.0, 0, 0, 0, 1), (2.0, 1, 0, 0, 1)
    timed_out, broken, begins = (3.0, 0, 1, 0, 1), (0.0, 0, 1, 1, 0), (9.0, 0, 1, 0, 0)
    steps = [(going, going), (fall, going), (begins, timed_out), (going, broken), (going, going)]
    player = Player(
        Script(*steps), SimpleNamespace(act=lambda obs, *_: obs, empty_state=lambda _: None, receive=lambda *_: None)
    )
    for _ in steps:
        player.step()
    assert player.finished == [
        Episode(0, 3.0, 2, "terminated"),
        Episode(1, 5.0, 3, "truncated"),
        Episode(1, 0.0, 0, "bad"),
    ]
    assert player.running() == [Episode(0, 2.0, 2, "running"), Episode(1, 1.0, 1, "running")]


def test_noise_is_its_own_and_seeded():
    agent = initial_agent(SPEC, CONFIG)
    states = []
    for noise in (None, torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)):
        task = make("ant", num_env=2)
        Player(task, agent, noise).step()
        states.append(task.obs)
    assert torch.equal(states[1], states[2]) and not torch.equal(states[0], states[1])
