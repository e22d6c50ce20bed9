"""Two ranks of rsl_rl with worlds of their own hold the same learner, bit for bit, with an adaptive learning rate."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import tiny_config

from gmi_drl.comm.memory.segment import create_segment
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.roles.rsl_rl import version
from gmi_drl.roles.rsl_rl.group import GroupRunner, process_group
from gmi_drl.tasks.rsl_rl_env import RslRlEnv
from tests.fork_server import SERVER

OLD_RSL_RL = Path(__file__).parents[3] / ".venv" / "rsl-rl-5.4"

WORKER = """
import os
import sys
from pathlib import Path
import torch
from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.learners import PPOConfig, RslRlConfig
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.comm.membership import Membership
from gmi_drl.layout.reductions import MPR_SHM
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.rsl_rl.group import process_group
from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from gmi_drl.roles.rsl_rl.version import installed, text
from gmi_drl.tasks import make

fd, folder = int(sys.argv[1]), Path(sys.argv[2])
torch.set_num_threads(1)
child = os.fork()  # after the imports, which take most of the time
rank = 1 if child == 0 else 0
ours = PPOConfig(hidden=(8,), horizon=4, epochs=2, minibatches=2, desired_kl=1e-3)
config = RunConfig(learner=RslRlConfig(runner=runner_config(ours)))
num_env = (4, 12)[rank]
group = open_group(MPR_SHM, Membership(rank, [range(2)], hang_s=60), Rendezvous(segment=fd))
reduction = open_reduction(MPR_SHM, group)
with process_group(group, folder / "store", 60):
    task = make("ant", num_env=num_env, seed=rank)
    replica = RslRlReplica(task, config, reduction, sample_share=num_env / 16, seed=rank, log_dir=folder)
    for _ in range(5):  # x 2 epochs x 2 mini-batches = 20 updates
        stats = replica.iterate(lambda: Decision.STOP if rank == 0 else Decision.GO_ON)
learner = tensor_digest(*replica.learner_state().values())
alg = replica.runner.alg
gradients = [parameter.grad.fill_(1 + rank) for parameter in (*alg.actor.parameters(), *alg.critic.parameters())]
alg.reduce_parameters()
means = {mean for gradient in gradients for mean in gradient.unique().tolist()}
rate, count = replica.metrics()["learning_rate"], int(alg.actor.obs_normalizer.count)
told = [learner, tensor_digest(task.obs), rate, count, stats.decision.name, text(installed()), *means]
os.write(1, " ".join(map(str, ["told", *told])).encode() + b"\\n")
group.barrier()
group.close()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("packages", [None, OLD_RSL_RL], ids=["installed", "5.4"])
def test_learners_are_bit_identical_after_twenty_updates(tmp_path, packages):
    if packages is not None and not (packages / "ready").exists():
        pytest.skip(f"{packages.name} is missing: make test installs it")
    fd = create_segment(2, 2**16)
    command = [sys.executable, "-c", WORKER, str(fd), str(tmp_path)]
    env = os.environ | ({"PYTHONPATH": str(packages)} if packages else {})
    with os.fdopen(fd):
        ranks = SERVER.run(command, env=env, pass_fds=[fd], stdout=subprocess.PIPE, text=True, timeout=240)
    assert ranks.returncode == 0
    told = [line.split()[1:] for line in ranks.stdout.splitlines() if line.startswith("told")]
    learners, worlds, rates, counts, words, versions, means = zip(*told, strict=True)
    assert packages is None or set(versions) == {"5.4"}
    assert len(set(learners)) == 1 and len(set(worlds)) == 2
    assert len(set(rates)) == 1 and float(rates[0]) != 1e-3
    assert set(counts) == {str(5 * 4 * 16)}  # the normalisers have seen the worlds of both
    assert set(words) == {"STOP"}
    assert set(means) == {"1.75"}  # gradients of 1 and 2, weighted by 4 and 12 worlds


@pytest.mark.parametrize(
    ("stays_s", "hang_s", "expected"), [(0, 60, PeerDiedError), (60, 3, PeerSilentError), (None, 1, PeerSilentError)]
)
def test_a_rank_that_goes_or_stays_away_is_the_peers_error(tmp_path, stays_s, hang_s, expected):
    """One that ends at once, be it while the ranks still connect; one that stays; one that never comes."""
    child = os.fork()
    ranks = SimpleNamespace(rank=int(child == 0), size=2)
    if child == 0:
        if stays_s is not None:
            with process_group(ranks, tmp_path / "store", 60):
                time.sleep(stays_s)
        os._exit(0)
    with pytest.raises(GmiError) as raised, process_group(ranks, tmp_path / "store", hang_s):
        torch.distributed.all_reduce(torch.ones(1))
    assert type(raised.value) is expected and not torch.distributed.is_initialized()
    os.kill(child, 9)
    os.waitpid(child, 0)


RND = {"weight": 0.1, "num_outputs": 1, "predictor_hidden_dims": [8], "target_hidden_dims": [8]}


def with_rnd():
    """A configuration with intrinsic rewards."""
    config = runner_config(tiny_config().learner)
    config["algorithm"]["rnd_cfg"] = RND | {"state_normalization": True, "reward_normalization": True}
    config["obs_groups"]["rnd_state"] = ["policy"]
    return config


def test_random_network_distillation_learns():
    runner = GroupRunner(
        RslRlEnv(make("ant", num_env=4)), with_rnd(), reduction=NoReduction(), sample_share=1.0, log_dir=None
    )
    before = [parameter.clone() for parameter in runner.alg.rnd.predictor.parameters()]
    runner.learn(1)
    after = runner.alg.rnd.predictor.parameters()
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_random_network_distillation_in_a_group_is_refused_before_5_5(monkeypatch):
    monkeypatch.setattr(version, "installed", lambda: (5, 4))
    two = SimpleNamespace(group=SimpleNamespace(rank=0, size=2))
    with pytest.raises(UsageError, match=r"rnd_cfg: on several GMIs it needs rsl-rl-lib 5\.5"):
        GroupRunner(RslRlEnv(make("ant", num_env=1)), with_rnd(), reduction=two, sample_share=0.5, log_dir=None)


def test_random_network_distillation_in_a_group_needs_nothing_of_ours_since_5_5():
    if version.installed() < (5, 5):
        pytest.skip("an older rsl-rl-lib is installed")
    two = SimpleNamespace(group=SimpleNamespace(rank=0, size=2))
    runner = GroupRunner(RslRlEnv(make("ant", num_env=1)), with_rnd(), reduction=two, sample_share=0.5, log_dir=None)
    assert runner.alg.rnd


def test_only_ppo_and_what_derives_from_it_trains():
    config = runner_config(tiny_config().learner)
    config["algorithm"]["class_name"] = "rsl_rl.algorithms:Distillation"
    env = RslRlEnv(make("ant", num_env=1))
    with pytest.raises(UsageError, match="Distillation is not rsl_rl's PPO"):
        GroupRunner(env, config, reduction=NoReduction(), sample_share=1.0, log_dir=None)


def test_the_configuration_stays_as_it_was():
    config = runner_config(tiny_config().learner)
    before = str(config)
    runner = GroupRunner(
        RslRlEnv(make("ant", num_env=1)), config, reduction=NoReduction(), sample_share=1.0, log_dir=None
    )
    assert str(config) == before and runner.cfg["algorithm"]["class_name"] == "PPO"
