"""A table of a replay server is looked at before a training starts."""

import socket
import time

import pytest
from conftest import tiny_config, tiny_layout
from roles.replay.test_server_ring import learner_of, table_of

from gmi_drl.cli.train.checks import check
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.errors import GmiError, UsageError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.launchers import LOCAL
from gmi_drl.replay.client.connection import ServerLostError
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.server.server import Server
from gmi_drl.roles.replay import server_check
from gmi_drl.roles.replay.server_check import check_server
from gmi_drl.run.folder import RunFolder


def test_a_table_that_can_be_learnt_from_passes(tmp_path):
    with Server([table_of(2, 1)], checkpoints=tmp_path) as server:
        check_server(learner_of(server))
    check_server(learner_of(server).model_copy(update={"replay": ReplaySettings()}))


def test_what_a_server_lacks_is_told():
    with Server([table_of(2, 1)]) as server:
        with pytest.raises(UsageError, match="writes no checkpoints"):
            check_server(learner_of(server))
        with pytest.raises(UsageError, match="needs 4"):
            check_server(learner_of(server, saved=False, n_step=3))
        other = ReplaySettings(server=f"{server.address}/other")
        with pytest.raises(UsageError, match="has no table 'other'"):
            check_server(learner_of(server).model_copy(update={"replay": other}))


def test_a_server_that_is_not_there_is_told_before_anything_starts(tmp_path):
    with Server([table_of(2, 1)]) as server:
        learner = learner_of(server)
    job = resolve(tiny_layout(task="ball_balance"), tiny_config(learner=learner), RunFolder(tmp_path / "run"))
    words = rf"learner\.replay\.server={server.address}/seen: .*cannot be reached.*gmi-drl replay serve"
    with pytest.raises(ServerLostError, match=words):
        check(job, LOCAL, apply_mig=False)
    assert not (tmp_path / "run").exists()


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(server_check, "REACH_S", 0.1)
    with Server([table_of(2, 1)]) as server:
        learner = learner_of(server)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}/seen"
        learner = learner.model_copy(update={"replay": ReplaySettings(server=place)})
        began = time.monotonic()
        with pytest.raises(ReplayTimeoutError, match="has not answered a greeting in time: start it"):
            check_server(learner)
        assert time.monotonic() - began < 30
    assert issubclass(ReplayTimeoutError, GmiError)
