"""Serving by actors and policy workers in real processes: they play what `play` plays."""

import json

import pytest
from conftest import tiny_config

from gmi_drl.config.learners import LEARNERS
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.launch.serving import serve
from gmi_drl.layout.channels import Streams
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.roles.seeds import serving_seed
from gmi_drl.roles.serving.player import Player, load_agent
from gmi_drl.tasks import make
from gmi_drl.templates import template_for
from gmi_drl.workload import TASK_SPECS

SPEC, STEPS, NUM_ENV = TASK_SPECS["ball_balance"], 120, 6
ASKS, ACTS, SERVES = ("simulator",), ("simulator", "agent"), ("agent",)


def layout_of(*roles, streams=None, **more):
    gmis = tuple(
        GMI(id=number, roles=some, cores=(0,), **({"num_env": NUM_ENV, **more} if "simulator" in some else more))
        for number, some in enumerate(roles)
    )
    streams = streams or (Streams() if SERVES in roles else None)
    devices = (Device(kind="cpu", gmis=gmis),)
    return Layout(task="ball_balance", template="workers", share_cores=True, devices=devices, streams=streams)


def played(run, seed):
    player = Player(make("ball_balance", num_env=NUM_ENV, seed=seed), load_agent(run, SPEC, tiny_config()))
    for _ in range(STEPS):
        player.step()
    return player.finished


def test_actors_play_what_play_does_whoever_acts(served_run, command_line, tmp_path):
    (tmp_path / "layout.yaml").write_text(dump_yaml(layout_of(ASKS, ACTS, SERVES)))
    options = ("--steps", str(STEPS), "--seed", "3", "--format", "json")
    code, out, err = command_line("serve", str(served_run.path), str(tmp_path / "layout.yaml"), *options)
    assert code == 0, err
    gmis = json.loads(out)["gmis"]
    assert list(gmis) == ["0", "1"]
    for gmi_id, gmi in gmis.items():
        episodes = played(served_run, serving_seed(3, int(gmi_id)))
        assert gmi["steps"] == STEPS and gmi["episodes"] == len(episodes) > 0
        assert gmi["return_sum"] == pytest.approx(sum(one.total for one in episodes), rel=1e-4)
    assert gmis["0"]["sync_s"] > 0 == gmis["1"]["sync_s"]


def test_rings_play_what_play_does_and_write_no_experience(served_run, command_line, tmp_path):
    """Members of rings have half of the environments, and count through: 3 and 4 ask, 5 and 6 act for themselves."""
    layout = layout_of(ASKS, ACTS, num_env=2 * NUM_ENV, ring=2)
    answers = GMI(id=2, roles=SERVES, cores=(0,))
    devices = (Device(kind="cpu", gmis=(*layout.gmis, answers)),)
    layout = layout.model_copy(update={"devices": devices, "streams": Streams()})
    (tmp_path / "layout.yaml").write_text(dump_yaml(layout))
    options = ("--steps", str(STEPS), "--seed", "3", "--format", "json")
    code, out, err = command_line("serve", str(served_run.path), str(tmp_path / "layout.yaml"), *options)
    assert code == 0, err
    for gmi_id, gmi in json.loads(out)["gmis"].items():
        episodes = [one for member in range(2) for one in played(served_run, serving_seed(3, 2 * int(gmi_id) + member))]
        assert gmi["steps"] == STEPS and gmi["num_env"] == 2 * NUM_ENV and len(episodes) > 0
        # Batches of another size round otherwise, and the physics makes much of it.
        assert gmi["episodes"] == pytest.approx(len(episodes), abs=2)
        assert gmi["return_sum"] == pytest.approx(sum(one.total for one in episodes), rel=0.2)
    whole = layout_of(ACTS, ring=2)
    with pytest.raises(UsageError, match=r"at once: leave ring of \[0\] out"):
        serve(whole, served_run, steps=2, experience=tmp_path / "seen")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (layout_of(SERVES), "needs an actor at least"),
        (layout_of(ASKS, SERVES, streams=Streams(fewest_actors=1)), "leave streams.fewest_actors out"),
        (layout_of(ASKS), "need `streams: {}`: see GMIs \\[0\\]"),
        (layout_of(ACTS, ("trainer",)), "is for training, not for serving"),
    ],
    ids=["nobody acts", "goes on", "nobody answers", "a trainer"],
)
def test_layouts_that_cannot_be_served_are_refused(layout, message):
    with pytest.raises(UsageError, match=message):
        template_for(layout, "serving")


def test_waits_beside_hang_s_are_refused_with_all_else_before_anything_starts(served_run):
    layout = layout_of(ASKS, SERVES, streams=Streams(wait_ms=1e6, fewest_actors=1))
    with pytest.raises(UsageError, match=r"streams.fewest_actors out; streams.wait_ms is 1e\+06, and hang_s 60: let"):
        serve(layout, served_run, steps=2)


def test_policies_that_answer_no_requests_are_refused():
    layout = layout_of(ASKS, SERVES)
    with pytest.raises(UsageError, match="serves policies of ppo and a3c, not of sac"):
        template_for(layout, "serving").roles(layout, LEARNERS.find("sac"))
