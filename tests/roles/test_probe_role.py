from gmi_drl.roles.agreement import Word
from gmi_drl.roles.probe import Probe


def test_a_measurement_has_as_many_iterations_as_it_was_given():
    probe = object.__new__(Probe)
    probe._left = 3
    assert [probe._decide() for _ in range(3)] == [Word.GO_ON, Word.GO_ON, Word.STOP]
