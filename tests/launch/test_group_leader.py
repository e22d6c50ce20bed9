import os
import signal
import subprocess

import pytest

from gmi_drl.launch.group_leader import GroupLeader


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_how_a_process_ended_is_known_also_when_it_is_reaped(number):
    """A GMI that is done is reaped when it has ended, and told of at the end of all, if it was killed."""
    leader = GroupLeader(subprocess.Popen(["sleep", "600"], process_group=0))
    os.kill(leader.pid, number)
    leader.exit_code(60)
    leader.end()
    assert leader.exit_code(0) == -number
    leader.close()
