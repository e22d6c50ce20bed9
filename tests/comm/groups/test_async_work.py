import time
from datetime import timedelta
from threading import Event

import pytest

from gmi_drl.comm.groups.async_work import AsyncWork, in_background
from gmi_drl.errors import MachineError

SOON = timedelta(milliseconds=20)


def test_it_is_waited_for_until_it_is_done():
    asked, ends = iter([False, False, True, True]), []
    work = AsyncWork(lambda: next(asked), lambda: ends.append("end"))
    work.wait(timedelta(minutes=1))
    assert work.is_completed() and ends == ["end"] and next(asked, None) is None


def test_one_that_is_not_done_in_time_is_not_ended():
    ends = []
    work = AsyncWork(lambda: False, lambda: ends.append("end"))
    started = time.perf_counter()
    with pytest.raises(RuntimeError, match="not ended"):
        work.wait(SOON)
    assert time.perf_counter() - started >= SOON.total_seconds() and not ends and not work.is_completed()


def test_what_goes_wrong_in_the_background_is_told_by_whoever_waits():
    def fail():
        raise ValueError("no way")

    with pytest.raises(RuntimeError, match="no way"):
        in_background(fail).wait()


def test_our_own_errors_come_through_as_they_are():
    def fail():
        raise MachineError("no NCCL")

    with pytest.raises(MachineError, match="no NCCL"):
        in_background(fail).wait()


def test_work_in_the_background_may_never_return():
    block, done = Event(), []
    work = in_background(lambda: done.append(block.wait()))
    with pytest.raises(RuntimeError, match="not ended"):
        work.wait(SOON)
    block.set()
    work.wait()
    assert work.is_completed() and done == [True]
