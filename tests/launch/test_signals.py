import os
import signal

import pytest

from gmi_drl.launch.signals import SecondSignal, stop_on_signals


def test_the_first_signal_asks_and_the_second_ends():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SecondSignal), stop_on_signals() as request:
        assert request.signal is None
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.signal is signal.SIGTERM
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
