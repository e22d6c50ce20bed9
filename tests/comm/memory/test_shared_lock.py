import os
import signal
import threading
import time
from contextlib import closing, contextmanager

import pytest
from conftest import open_descriptors

from gmi_drl.comm.memory.shared_lock import SharedLock
from gmi_drl.errors import PeerSilentError


@pytest.fixture
def descriptor():
    descriptor = os.memfd_create("a test", os.MFD_CLOEXEC)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def holder():
    return memoryview(bytearray(8)).cast("q")


@contextmanager
def holding(descriptor, holder):
    """A process that holds the lock, as GMI 7, until it is killed."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        with SharedLock(descriptor, holder, 7, hang_s=60).held():
            os.write(writer, b"held")
            signal.pause()
        os._exit(0)
    os.read(reader, 4)
    yield child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for end in (reader, writer):
        os.close(end)


def test_only_one_holds_it(descriptor, holder):
    held = [0]

    def hold(own):
        with closing(SharedLock(descriptor, holder, own, hang_s=60)) as lock:
            for _ in range(200):
                with lock.held():
                    assert held == [0]
                    held[0] = 1
                    time.sleep(0)
                    held[0] = 0

    threads = [threading.Thread(target=hold, args=(own,)) for own in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == [0] and holder[0] in (1, 2, 3)


def test_it_is_free_when_its_holder_is_killed(descriptor, holder):
    with holding(descriptor, holder) as child, closing(SharedLock(descriptor, holder, 1, hang_s=60)) as lock:
        threading.Timer(0.1, os.kill, (child, signal.SIGKILL)).start()
        with lock.held():
            assert holder[0] == 2


def test_who_holds_it_for_long_is_named(descriptor, holder):
    holder[0] = 8  # the child's own word is not shared here
    words = r"GMI 7 has held a lock for 0.05 s \(hang_s\) while GMI 1 waited"
    with (
        holding(descriptor, holder),
        closing(SharedLock(descriptor, holder, 1, hang_s=0.05)) as lock,
        pytest.raises(PeerSilentError, match=words),
        lock.held(),
    ):
        pass


def test_it_is_free_after_an_error_and_nothing_is_left_open(descriptor, holder):
    before = len(open_descriptors())
    with closing(SharedLock(descriptor, holder, 1, hang_s=0.05)) as lock:
        for _ in range(2):
            with pytest.raises(KeyError), lock.held():
                raise KeyError
    assert len(open_descriptors()) == before
