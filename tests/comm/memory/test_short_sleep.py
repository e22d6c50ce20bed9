import fcntl
import os
import resource
import time

from gmi_drl.comm.memory.short_sleep import sleep_until_readable

LONG_S = 30.0


def timed(descriptors, seconds):
    began = time.monotonic()
    sleep_until_readable(descriptors, seconds)
    return time.monotonic() - began


def test_a_sleep_takes_its_time_and_ends_at_once_for_a_descriptor_of_any_number():
    eventfd = os.eventfd(0)
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = fcntl.fcntl(eventfd, fcntl.F_DUPFD, min(most - 1, 1500))
    began = time.monotonic()
    sleep_until_readable([number], 0.0002)
    assert time.monotonic() - began >= 0.0002
    least = min(timed([number], 0.0002) for _ in range(200))
    assert 0.0002 <= least < 0.001, "it is neither left out nor rounded up to a whole millisecond"
    sleep_until_readable([number], -0.5)
    os.eventfd_write(eventfd, 1)
    sleep_until_readable([eventfd, number], LONG_S)
    sleep_until_readable([number], LONG_S)
    assert time.monotonic() - began < LONG_S
    os.close(eventfd)
    os.close(number)
