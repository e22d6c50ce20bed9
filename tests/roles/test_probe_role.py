import weakref

from gmi_drl.roles.agreement import Word
from gmi_drl.roles.probe import ReplicaProbe


class Worlds:
    is_closed = False

    def close(self):
        self.is_closed = True


class Replica:
    def __init__(self, task):
        self.task, self.cycle = task, self


class AnyProbe(ReplicaProbe):
    make_replica = staticmethod(Replica)
    GMI_run = None


def test_a_measurement_has_as_many_iterations_as_it_was_given():
    probe = object.__new__(AnyProbe)
    probe._left = 3
    assert [probe._decide() for _ in range(3)] == [Word.GO_ON, Word.GO_ON, Word.STOP]


def test_a_learners_replica_is_made_with_its_worlds_and_goes_with_them():
    probe, first, second = object.__new__(AnyProbe), Worlds(), Worlds()
    probe.leave_worlds()  # there are none yet
    probe.enter_worlds(first)
    replica = weakref.ref(probe.replica)
    assert replica().task is first
    probe.leave_worlds()
    assert first.is_closed and replica() is None  # before others are made, whose memory counts
    probe.enter_worlds(second)
    assert probe.replica.task is second and not second.is_closed
