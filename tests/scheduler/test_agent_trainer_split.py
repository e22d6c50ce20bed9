"""GMIs are divided by what each side can do."""

from dataclasses import replace

import pytest

from gmi_drl.config.learners import A3CConfig, SACConfig
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Cpu, CpuDevices, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.agent_trainer_split import Division, chosen, divisions
from gmi_drl.scheduler.profile import ProfilePoint

NODE = Node(name="n", cpus=CpuDevices(cores_each=4, count=1), cpu=Cpu(cores=4, memory_gib=8))

LEARNER = A3CConfig(horizon=16)


def point(gmis, num_env, speed):
    return ProfilePoint(gmis_per_gpu=gmis, num_env=num_env, runnable=True, steps_per_second=speed)


@pytest.mark.parametrize(("learns", "trainers"), [(9000.0, 1), (1000.0, 2), (300.0, 3)])
def test_the_slower_side_decides_how_many_train(learns, trainers):
    best = chosen(divisions(NODE, [point(4, 64, 1000.0)], {Cut(4, 64): learns}, LEARNER))
    assert (best.agents, best.trainers) == (4 - trainers, trainers)
    assert best.steps_per_second == pytest.approx(min((4 - trainers) * 1000.0, trainers * learns))


def test_fewer_environments_are_taken_where_more_gain_little():
    acting = [point(2, 64, 960.0), point(2, 128, 1000.0), point(2, 32, 900.0)]
    learning = {one.cut: 1e6 for one in acting}
    assert chosen(divisions(NODE, acting, learning, LEARNER)).cut == Cut(2, 64)


def test_trainers_wait_for_their_sums():
    acting, learning = [point(3, 64, 1000.0)], {Cut(3, 64): 1024.0}
    alone, pair = (
        next(
            way
            for way in divisions(NODE, acting, learning, LEARNER, lambda cut, trainers: trainers - 1.0)
            if way.trainers == n
        )
        for n in (1, 2)
    )
    assert alone.learnt == pytest.approx(1024.0)  # its two rollouts of 1024 steps take 2 s
    assert pair.learnt == pytest.approx(2 * 1024 / 2)  # one rollout each, in a second and another of waiting


def test_an_update_is_by_as_many_rollouts_as_were_set():
    learner = A3CConfig(horizon=16, rollouts=4)
    (way,) = divisions(NODE, [point(2, 64, 1000.0)], {Cut(2, 64): 1024.0}, learner, lambda cut, trainers: 1.0)
    assert way.learnt == pytest.approx(4096 / 5)  # four rollouts of the one agent take 4 s, the sum another


def test_updates_from_replay_take_as_long_by_any_number_of_rollouts():
    learner = SACConfig(horizon=16)
    ways = divisions(NODE, [point(4, 64, 1000.0)], {Cut(4, 64): 1024.0}, learner, lambda cut, trainers: 1.0)
    learnt = {way.trainers: way.learnt for way in ways}
    assert learnt == pytest.approx({1: 3 * 1024 / 2, 2: 2 * 1024 / 2, 3: 3 * 1024 / 2})


def test_machines_that_are_divided_alike_do_so_many_times_as_much():
    way = Division(Cut(3, 64), agents=2, trainers=1, produced=10.0, learnt=20.0, confirmed=9.0)
    assert way.on(3) == Division(Cut(3, 64), agents=6, trainers=3, produced=30.0, learnt=60.0, confirmed=27.0)
    assert replace(way, confirmed=None).on(3).confirmed is None


def test_what_ran_goes_before_what_was_expected_which_has_an_error():
    way = Division(Cut(2, 64), agents=1, trainers=1, produced=1050.0, learnt=2000.0)
    ran = replace(way, confirmed=1000.0)
    assert (way.steps_per_second, way.error) == (1050.0, None)
    assert (ran.steps_per_second, ran.error) == (1000.0, pytest.approx(0.05))
    three = Division(Cut(2, 64), agents=3, trainers=3, produced=3150.0, learnt=6000.0, confirmed=3000.0)
    assert ran.on(3) == three and way.on(3) == replace(three, confirmed=None)


def test_who_sets_the_pace_is_told():
    (way,) = divisions(NODE, [point(2, 64, 1000.0)], {Cut(2, 64): 500.0}, LEARNER)
    assert (
        way.described
        == "1 agent x 64 environments: 1.0k steps/s, 1 trainer could learn from 500: trainers set the pace"
    )


def test_points_that_leave_nobody_to_train_are_no_plan():
    with pytest.raises(NoFeasiblePlanError, match="--budget"):
        chosen(divisions(NODE, [point(1, 64, 1000.0)], {Cut(1, 64): 1e6}, LEARNER))
