"""One replica alone; `test_group.py` has two of them."""

import pytest
import torch
from conftest import tiny_config

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import PPOConfig, RslRlConfig
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from gmi_drl.tasks.rsl_rl_env import RslRlEnv

N, HORIZON = 8, 4
OURS = PPOConfig(horizon=HORIZON, epochs=2, minibatches=2, hidden=(8,))
CONFIG = tiny_config(learner=RslRlConfig(runner=runner_config(OURS), reward_scale=0.05))


def make_replica(tmp_path, config=CONFIG, seed=1):
    task = make("ant", num_env=N, seed=seed)
    return RslRlReplica(task, config, NoReduction(), sample_share=1.0, seed=seed, log_dir=tmp_path)


def go_on():
    return Decision.GO_ON


def digest(replica):
    return tensor_digest(*replica.learner_state().values())


def test_an_iteration_learns_and_gives_the_entries_of_a_row(tmp_path):
    replica = make_replica(tmp_path)
    before = digest(replica)
    stats = replica.iterate(lambda: Decision.STOP)
    assert stats.decision is Decision.STOP and stats.reward_sum != 0 and digest(replica) != before
    told = replica.metrics()
    assert {*told} == {"surrogate_loss", "value_loss", "entropy", "learning_rate", "action_std"}
    assert told["action_std"] == pytest.approx(OURS.init_std, rel=0.1)
    phases = replica.phases()
    assert all(phases[name] > 0 for name in ("sim_s", "act_s", "learn_s")) and phases["sync_s"] == 0
    assert replica.runner.current_learning_iteration == 1
    assert not list(tmp_path.iterdir())  # no logger was named


def test_alone_it_learns_what_rsl_rls_own_runner_learns_bit_for_bit(tmp_path):
    from rsl_rl.runners import OnPolicyRunner

    torch.manual_seed(3)
    theirs = OnPolicyRunner(RslRlEnv(make("ant", num_env=N, seed=1), 0.05), runner_config(OURS))
    theirs.learn(3, init_at_random_ep_len=True)
    torch.manual_seed(3)
    replica = make_replica(tmp_path)
    for _ in range(3):
        replica.iterate(go_on)
    assert len(replica.env.episode_length_buf.unique()) > N // 2
    assert digest_of(replica.runner.alg) == digest_of(theirs.alg)


def digest_of(alg):
    return tensor_digest(*alg.actor.state_dict().values(), *alg.critic.state_dict().values())


def test_what_goes_on_from_its_state_is_bit_identical(tmp_path):
    replica = make_replica(tmp_path)
    replica.iterate(go_on)
    learner, worlds = replica.learner_state(), {name: t.clone() for name, t in replica.local_state().items()}
    expected = replica.iterate(go_on), digest(replica)
    again = make_replica(tmp_path, seed=5)
    again.load_learner_state(learner)
    again.load_local_state(worlds)
    assert (again.iterate(go_on).reward_sum, digest(again)) == (expected[0].reward_sum, expected[1])


def test_episodes_are_staggered_again_where_the_task_has_no_state(tmp_path):
    replica = make_replica(tmp_path)
    replica.env.task.state_dict = dict
    replica.iterate(go_on)
    again = make_replica(tmp_path, seed=2)
    task = again.env.task
    task.load_state_dict = lambda state: task.reset()
    again.load_local_state(replica.local_state())
    assert len(task.episode_length.unique()) > N // 2 and task.episode_length.max() > HORIZON
    assert not again.iteration_metrics.running_episodes.any()


def test_another_learning_rate_takes_effect(tmp_path):
    replica = make_replica(tmp_path)
    replica.set_learning_rate(2e-5)
    assert replica.metrics is not None and replica.runner.alg.optimizer.param_groups[0]["lr"] == 2e-5
    fixed = RslRlConfig(runner=runner_config(OURS.model_copy(update={"schedule": "fixed"})))
    still = make_replica(tmp_path, CONFIG.model_copy(update={"learner": fixed}))
    still.set_learning_rate(2e-5)
    still.iterate(go_on)
    assert still.metrics()["learning_rate"] == 2e-5


def test_rsl_rls_own_runner_loads_what_is_exported(tmp_path):
    from rsl_rl.runners import OnPolicyRunner

    replica = make_replica(tmp_path)
    replica.iterate(go_on)
    replica.export(tmp_path / "model_1.pt")
    theirs = OnPolicyRunner(RslRlEnv(make("ant", num_env=2)), runner_config(OURS))
    theirs.load(str(tmp_path / "model_1.pt"))
    assert theirs.current_learning_iteration == 1
    expected = replica.runner.alg.actor.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in theirs.alg.actor.state_dict().items())
    assert torch.load(tmp_path / "model_1.pt", weights_only=True)["iter"] == 1


def test_the_policy_for_evaluations_is_a_copy_without_noise_in_environments_of_its_own(tmp_path):
    replicas = []
    for _ in range(2):
        torch.manual_seed(3)
        replicas.append(make_replica(tmp_path))
    with torch.random.fork_rng(devices=[]):
        act, task = replicas[0].policy(), make("ant", num_env=3, seed=9)
        begins = torch.ones(3, dtype=torch.bool)
        first = act(task, begins, begins.float(), ~begins)
        assert first.shape == (3, 8) and torch.equal(first, act(task, begins, begins.float(), ~begins))
    for replica in replicas:
        torch.manual_seed(0)
        replica.iterate(go_on)
    assert digest(replicas[0]) == digest(replicas[1])
