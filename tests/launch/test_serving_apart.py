"""Serving with simulators and agents on GMIs of their own (TDG): the same episodes as with both on one (TCG)."""

import os
import re
import signal

import pytest
import torch
from conftest import children_of, tiny_config, tiny_layout, two_cores

from gmi_drl.comm.reductions.alone import Solo
from gmi_drl.cut import Cut
from gmi_drl.errors import GmiDiedError
from gmi_drl.hardware import Cpu, Node
from gmi_drl.launch import serving
from gmi_drl.launch.serving import serve
from gmi_drl.roles.replica import Replica
from gmi_drl.run import checkpoint
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import TCG, TDG
from gmi_drl.workload import TASK_SPECS

SPEC = TASK_SPECS["ball_balance"]
STEPS = 150

pytestmark = two_cores


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a policy that has learnt nothing."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    folder.create()
    folder.write_setup(tiny_layout(task="ball_balance"), tiny_config())
    replica = Replica(SPEC, tiny_config(), Solo(), sample_share=1.0, device=torch.device("cpu"), seed=0)
    checkpoint.write_part(checkpoint.draft(folder.checkpoints, 2), "learner", replica.learner_state())
    checkpoint.commit(folder.checkpoints, 2, dict.fromkeys(checkpoint.FACTS, 0) | {"iteration": 2}, kept=2)
    return folder


def layout(template, gmis, share_cores=False):
    node = Node(name="n", cpu=Cpu(cores=min(gmis, 2), memory_gib=8))
    return template.lay_out(SPEC, node, Cut(gmis, 6, share_cores=share_cores))


@pytest.mark.parametrize("stochastic", [False, True])
def test_one_simulator_and_one_agent_play_the_episodes_of_one_gmi_with_both(run, stochastic):
    apart, together = (
        serve(layout(template, gmis), run, steps=STEPS, seed=3, stochastic=stochastic).gmis
        for template, gmis in ((TDG, 2), (TCG, 1))
    )
    assert list(apart) == [1] and list(together) == [0], "the agent tells of all"
    one, other = apart[1], together[0]
    for name in ("num_env", "steps", "episodes", "return_sum", "length_sum", "bad"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.episodes > 0 and one.sim_s > 0 and one.act_s > 0
    assert one.sync_s > 0 == other.sync_s


def test_two_simulators_share_an_agent(run):
    served = serve(layout(TDG, 3, share_cores=True), run, steps=20)
    assert list(served.gmis) == [2] and served.gmis[2].env_steps == 20 * 12
    assert served.steps_per_second == pytest.approx(served.gmis[2].steps_per_second)
    assert not children_of(os.getpid())


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_gmi_is_named(run, monkeypatch, victim):
    say = serving.GMIProcesses.say

    def say_and_kill(processes, gmi_id, word):
        say(processes, gmi_id, word)
        if word == serving.Start():
            for child in children_of(os.getpid()):
                if re.match(rf"GMI {victim} of ", child.cmdline()[-1]):
                    child.send_signal(signal.SIGKILL)

    monkeypatch.setattr(serving.GMIProcesses, "say", say_and_kill)
    with pytest.raises(GmiDiedError, match=rf"GMI {victim} \(process \d+\) was killed by SIGKILL"):
        serve(layout(TDG, 2), run, steps=10**8)
    assert not children_of(os.getpid())
