"""Trainers of one of several policies that stand still: nobody else is blamed."""

import signal

import psutil
import pytest
from conftest import two_cores
from test_several_policies import CHASERS, RUNNERS, config_of, layout_of

from gmi_drl.errors import GmiError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import Device
from gmi_drl.run.folder import RunFolder


def stop(gmi_id):
    for process in psutil.Process().children(recursive=True):
        if process.cmdline()[-1].startswith(f"GMI {gmi_id} of"):
            process.send_signal(signal.SIGSTOP)
            return True
    return False


@two_cores
@pytest.mark.parametrize(("policy", "served", "is_far"), [(0, True, False), (1, False, True)])
def test_a_trainer_that_is_stopped_is_named_by_the_actor_that_waits_for_it(tmp_path, policy, served, is_far):
    """The other trainer waits for the actor fewer times `hang_s`. Places of the first policy are leased first."""
    layout, stopped = layout_of("chasers", "runners", served=served), []
    trainer = layout.with_role("trainer")[policy].id
    if is_far:
        actor, *others = layout.gmis
        devices = tuple(
            Device(node=node, kind="cpu", gmis=tuple(gmis)) for node, gmis in (("b", [actor]), ("a", others))
        )
        layout = layout.model_copy(update={"devices": devices})
    config = config_of({"chasers": CHASERS, "runners": RUNNERS}, iterations=10**6, hang_s=5.0)
    folder = RunFolder(tmp_path / "run")
    folder.create()

    def on_row(row):
        if row["iteration"] >= 3 and not stopped and stop(trainer):
            stopped.append(row["iteration"])

    supervisors = SubprocessSupervisors() if is_far else None
    with pytest.raises(GmiError, match=rf"^GMI 0: GMI {trainer} \(process \d+\) lives but has not made room"):
        train(resolve(layout, config, folder), supervisors=supervisors, on_row=on_row)
    assert stopped
