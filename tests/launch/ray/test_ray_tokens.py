"""Clusters that let in only who has their token; no cluster is needed to try what is told."""

import socket
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
