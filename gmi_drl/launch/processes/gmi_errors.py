"""The errors by which a launcher names processes that have failed, died or hang."""

import time
from collections.abc import Collection, Mapping

from gmi_drl.errors import GmiDiedError, GmiError, PeerDiedError
from gmi_drl.gmi.inventory.core_load import overload
from gmi_drl.launch.processes.gmi_handle import UNKNOWN, GMIHandle, how_it_ended, log_of
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.launcher.protocol import Failed
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.process_names import gmi_of, name_in

GRACE_S = 3.0
"""Deadline for a process whose role is done to end, before its group is killed."""

STACKS_S = 0.5
"""How long GMIs have to write the stacks of their threads, when one of them hangs."""


class GMIErrors:
    """Makes the errors.

    Args:
        layout: Of the run.
        folder: Of the run, with the logs.
        children: The running processes, by number.
    """

    def __init__(self, layout: Layout, folder: RunFolder, children: Mapping[int, GMIHandle]) -> None:
        self._layout, self._folder, self._children = layout, folder, children

    def of(self, number: int, what: str) -> GmiError:
        """The error of a process, with its log."""
        return GmiError(f"{self._name_of(number)} {what}{self._log_of(number)}")

    def late(self, number: int, most_s: float) -> GmiError:
        """The error of a process that has not started within `most_s` seconds; on a busy machine with the reason."""
        error = self.of(number, f"has not started within {most_s:.0f} s")
        if not self._children[number].where and (busy := overload()):
            error.add_note(f"This machine is busy, {busy}")
        return error

    def failure(self, number: int, word: Failed) -> GmiError:
        """The error that a GMI has reported, with its exit code; `PeerDiedError` if because a peer has ended."""
        kind = PeerDiedError if word.peer_ended else GmiError
        error = kind(f"{self._name_of(number)}: {word.message}{self._log_of(number, word.message)}")
        error.exit_code = GmiError.exit_code if word.blames_peer else word.exit_code
        return error

    def death(self, number: int) -> GmiDiedError:
        """The error of a process that has ended, with how it did."""
        child = self._children[number]
        code = child.exit_code(GRACE_S)
        text = f"{self._name_of(number)} (process {child.pid}{child.where}) {how_it_ended(code)}{self._log_of(number)}"
        return GmiDiedError(text, gmi_of(number), None if code == UNKNOWN else code)

    def with_stacks(self, error: GmiError, over: Collection[int]) -> GmiError:
        """The error of a GMI that hangs, after all GMIs that still run have written their stacks into their logs.

        Which of them hangs is known only from what others say, so all of them write.

        Args:
            error: To which this adds where the stacks are.
            over: The processes that are done or have failed.
        """
        running = [number for number in self._children if number not in over]
        if self._folder.stays and running:
            for number in running:
                self._children[number].show_stacks()
            time.sleep(STACKS_S)
            where = f"the logs in {self._folder.log_file(0).parent}: {', '.join(map(self._name_of, running))}"
            error.add_note(f"Stacks of all threads of the GMIs that still ran are at the end of {where}")
        return error

    def _name_of(self, number: int) -> str:
        return name_in(self._layout, number)

    def _log_of(self, number: int, message: str = "") -> str:
        return log_of(self._children[number], message, stays=self._folder.stays)
