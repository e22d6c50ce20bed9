"""Which launchers there are."""

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.launch.launchers import ONLY_NODE, layout_for, supervisors_for
from tests.launch.nodes.on_two import over


def test_a_layout_of_one_machine_gets_a_node_with_a_name():
    assert layout_for("ray", over(None)).nodes == (ONLY_NODE,)
    assert layout_for("ray", over("a", "b")).nodes == ("a", "b")
    assert layout_for("local", over(None)).nodes == (None,)


def test_a_launcher_that_is_none_is_refused():
    with pytest.raises(UsageError, match="there is no launcher 'rey'; did you mean 'ray'"):
        layout_for("rey", over(None))


def test_on_this_machine_nobody_starts_agents():
    with supervisors_for("local", over(None)) as agents:
        assert agents is None
