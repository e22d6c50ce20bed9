"""Serving with simulators and agents on GMIs of their own (TDG): the same episodes as with both on one (TCG)."""

import os
import re
import signal

import pytest
from conftest import children_of, two_cores

from gmi_drl.errors import GmiDiedError
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.launch import serving
from gmi_drl.launch.serving import serve
from gmi_drl.layout.cut import Cut
from gmi_drl.templates import TCG, TDG
from gmi_drl.workload import TASK_SPECS

SPEC = TASK_SPECS["ball_balance"]
STEPS = 150

pytestmark = two_cores


def layout(template, gmis, share_cores=False):
    node = Node(name="n", cpu=Cpu(cores=min(gmis, 2), memory_gib=8))
    return template.lay_out(SPEC, node, Cut(gmis, 6, share_cores=share_cores))


@pytest.mark.parametrize("stochastic", [False, True])
def test_one_simulator_and_one_agent_play_the_episodes_of_one_gmi_with_both(served_run, stochastic):
    apart, together = (
        serve(layout(template, gmis), served_run, steps=STEPS, seed=3, stochastic=stochastic).gmis
        for template, gmis in ((TDG, 2), (TCG, 1))
    )
    assert list(apart) == [1] and list(together) == [0], "the agent tells of all"
    one, other = apart[1], together[0]
    for name in ("num_env", "steps", "episodes", "return_sum", "length_sum", "bad"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.episodes > 0 and one.sim_s > 0 and one.act_s > 0
    assert one.sync_s > 0 == other.sync_s


def test_two_simulators_share_an_agent(served_run):
    served = serve(layout(TDG, 3, share_cores=True), served_run, steps=20)
    assert list(served.gmis) == [2] and served.gmis[2].env_steps == 20 * 12
    assert served.steps_per_second == pytest.approx(served.gmis[2].steps_per_second)
    assert not children_of(os.getpid())


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_gmi_is_named(served_run, monkeypatch, victim):
    say = serving.GMIProcesses.send

    def say_and_kill(processes, gmi_id, word):
        say(processes, gmi_id, word)
        if word == serving.Start():
            for child in children_of(os.getpid()):
                if re.match(rf"GMI {victim} of ", child.cmdline()[-1]):
                    child.send_signal(signal.SIGKILL)

    monkeypatch.setattr(serving.GMIProcesses, "send", say_and_kill)
    with pytest.raises(GmiDiedError, match=rf"GMI {victim} \(process \d+\) was killed by SIGKILL"):
        serve(layout(TDG, 2), served_run, steps=10**8)
    assert not children_of(os.getpid())
