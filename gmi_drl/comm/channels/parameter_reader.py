"""The end of a policy worker: it reads the parameters that trainers publish, and sends no experience."""

from gmi_drl.comm.channels.channel_memory import ChannelMemory
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.memory.shared_lock import SharedLock


class ParameterReader:
    """Reads the newest parameters.

    Args:
        memory: Of the channels.
        lock: Of the memory; it is not needed.
        notifier: Of this GMI.
        patience: How many times `hang_s` the first version is waited for.

    Attributes:
        parameters: The newest ones.
        notifier: Of this GMI.
    """

    def __init__(self, memory: ChannelMemory, lock: SharedLock, notifier: Notifier, patience: int) -> None:
        lock.close()
        self._memory, self.notifier = memory, notifier
        self.parameters = memory.parameters(notifier, patience)

    def await_version(self, version: int) -> bool:
        """Wait for a version, with the errors of `Parameters.await_version`.

        Trainers of another host may be one version ahead of those here: they wait for each other in each update.

        Returns:
            Whether it is published: False as soon as trainers are known to be more than one version behind it.
        """
        self.parameters.await_first()
        return self.parameters.await_version(version, lambda: version > (self.parameters.newest_version() or 0) + 1)

    @property
    def keepalives(self) -> object:
        """A value that changes whenever a trainer sends a keepalive."""
        return self._memory.keepalives

    @property
    def is_closed(self) -> bool:
        """Whether no more experience is needed, and so no further version comes."""
        return self._memory.is_closed

    def finish(self) -> None:
        """Do nothing: nobody else reads by this object."""

    def close(self) -> None:
        """Stop watching the trainers."""
        self.notifier.close()
