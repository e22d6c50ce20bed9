"""Two ranks of rsl_rl with worlds of their own hold the same learner, bit for bit, with an adaptive learning rate."""

import os
import subprocess
import sys

import pytest

from gmi_drl.comm import create_segment

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

WORKER = """
import os
import sys
from pathlib import Path
import torch
from gmi_drl.algo.flat import tensor_digest
from gmi_drl.comm import open_reduction
from gmi_drl.config import PPOConfig, RunConfig
from gmi_drl.roles.agreement import Word
from gmi_drl.roles.rsl_rl.group import process_group
from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from gmi_drl.tasks import make

fd, folder = int(sys.argv[1]), Path(sys.argv[2])
torch.set_num_threads(1)
child = os.fork()  # after the imports, which take most of the time
rank = 1 if child == 0 else 0
config = RunConfig(ppo=PPOConfig(hidden=(8,), horizon=4, epochs=2, minibatches=2, desired_kl=1e-3))
num_env = (4, 12)[rank]
reduction = open_reduction("MPR-shm", rank, 2, fd=fd, hang_s=60)
with process_group(reduction, folder / "store", 60):
    task = make("ant", num_env=num_env, seed=rank)
    replica = RslRlReplica(task, config, reduction, share=num_env / 16, seed=rank, log_dir=folder)
    for _ in range(5):  # x 2 epochs x 2 mini-batches = 20 updates
        news = replica.iterate(lambda: Word.STOP if rank == 0 else Word.GO_ON)
learner = tensor_digest(*replica.learner_state().values())
rate, count = replica.metrics()["learning_rate"], int(replica.runner.alg.actor.obs_normalizer.count)
os.write(1, f"told {learner} {tensor_digest(task.obs)} {rate} {count} {news.word.name}\\n".encode())
reduction.barrier()
reduction.close()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_learners_are_bit_identical_after_twenty_updates(tmp_path):
    fd = create_segment(2, 2**16)
    command = [sys.executable, "-c", WORKER, str(fd), str(tmp_path)]
    with os.fdopen(fd):
        ranks = subprocess.run(command, pass_fds=[fd], stdout=subprocess.PIPE, text=True, timeout=240)
    assert ranks.returncode == 0
    told = [line.split()[1:] for line in ranks.stdout.splitlines() if line.startswith("told")]
    learners, worlds, rates, counts, words = zip(*told, strict=True)
    assert len(set(learners)) == 1 and len(set(worlds)) == 2
    assert len(set(rates)) == 1 and float(rates[0]) != 1e-3
    assert set(counts) == {str(5 * 4 * 16)}  # the normalisers have seen the worlds of both
    assert set(words) == {"STOP"}
