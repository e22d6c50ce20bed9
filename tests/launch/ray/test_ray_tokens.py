"""Clusters that let in only who has their token; no cluster is needed to try what is told."""

import socket
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.launch.ray.cluster import connected

ray = pytest.importorskip("ray", reason="needs the extra [ray]")


@pytest.mark.parametrize(
    ("mode", "error", "remedy"),
    [
        (
            "",
            ConnectionError("Failed to connect"),
            "Ray: Failed to connect; if .* tokens .*RAY_AUTH_MODE=token, with its",
        ),
        (
            "token",
            ConnectionError("Failed to connect"),
            "Failed to connect; the cluster's token must be in RAY_AUTH_TOKEN",
        ),
        ("token", ray.exceptions.AuthenticationError("no token"), "Ray: no token.*; the cluster's token must be in"),
    ],
)
def test_a_cluster_that_lets_nobody_in_without_its_token_is_told(monkeypatch, mode, error, remedy):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(ray, "init", Mock(side_effect=error))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as head:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{head.getsockname()[1]}")
        with pytest.raises(MachineError, match=remedy), connected():
            pass


@pytest.fixture
def nothing_found(monkeypatch):
    """No address is set, and Ray cannot connect; what runs here is for the test to say. A list of what has begun."""
    begun = []

    @contextmanager
    def own():
        begun.append("own")
        yield

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setattr(ray, "init", Mock(side_effect=ConnectionError("Failed to connect to Ray cluster")))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr("gmi_drl.launch.ray.cluster.own_cluster", own)
    return begun


def runs_here(monkeypatch, *command):
    running = [SimpleNamespace(info={"cmdline": list(command)}), SimpleNamespace(info={"cmdline": None})]
    monkeypatch.setattr("psutil.process_iter", lambda attributes: running)


def test_a_cluster_that_runs_here_and_lets_nobody_in_is_told_where_no_address_is_set(monkeypatch, nothing_found):
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        runs_here(monkeypatch, "/opt/ray/raylet", "--node_id=1", f"--gcs-address={address}")
        words = (
            rf"Ray: the cluster that runs here \({address}\): Failed .*; RAY_ADDRESS=local .*; .*RAY_AUTH_MODE=token"
        )
        with pytest.raises(MachineError, match=words), connected():
            pass
    assert nothing_found == []


@pytest.mark.parametrize("program", ["raylet", "sleep"])
def test_where_no_cluster_runs_one_of_our_own_begins(monkeypatch, nothing_found, program):
    """A raylet whose head has gone is none; nor is another program."""
    runs_here(monkeypatch, f"/bin/{program}", "--gcs-address=127.0.0.1:1")
    with connected():
        assert nothing_found == ["own"]
