import os
import signal
import subprocess
import sys

import pytest
from conftest import environment

from gmi_drl.launch.signals import TRIAL_VARIABLE, EndedAtOnce, stop_on_signals


def test_the_first_signal_asks_and_the_second_ends():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(EndedAtOnce) as second, stop_on_signals() as request:
        assert request.signal is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.signal is signal.SIGTERM
        os.kill(os.getpid(), signal.SIGINT)
    assert second.value.code == 128 + signal.SIGTERM and signal.getsignal(signal.SIGTERM) is before


def test_whoever_starts_a_training_and_is_ended_at_once_leaves_with_128_and_the_signal():
    """As benchmark cases, which catch nothing."""
    script = """
import os, signal
from gmi_drl.launch.signals import Stage, stop_on_signals
with stop_on_signals(Stage.STARTING):
    os.kill(os.getpid(), signal.SIGINT)
"""
    run = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, timeout=60)
    assert (run.returncode, run.stderr) == (130, b"")


def test_a_third_signal_does_not_disturb_what_the_second_one_ends():
    with pytest.raises(EndedAtOnce), stop_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            has_ended = True
    assert has_ended


def test_when_the_end_is_settled_signals_change_nothing():
    with stop_on_signals() as request:
        request.settle()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.signal is None


def test_an_ignored_signal_stays_ignored():
    """As `nohup` wants it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert request.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_trial_that_is_told_twice_to_end_by_sigterm_ends_in_order_and_by_ctrl_c_at_once(monkeypatch):
    monkeypatch.setenv(TRIAL_VARIABLE, "0-seed0")
    with pytest.raises(EndedAtOnce) as ended, stop_on_signals() as request:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert request.signal is signal.SIGTERM
        os.kill(os.getpid(), signal.SIGINT)
    assert ended.value.code == 128 + signal.SIGTERM
