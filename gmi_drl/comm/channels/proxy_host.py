"""What the proxies of one process share: the memories of this host, and one copy of the newest parameters."""

import threading

import torch
from torch import Tensor

from gmi_drl.comm.channels import ParameterReader, join_as_agent, join_as_reader
from gmi_drl.comm.channels.agent_end import NewestParameters
from gmi_drl.comm.channels.channel_memory import MappedOnce
from gmi_drl.comm.channels.local_agent import LocalAgentEnd
from gmi_drl.comm.channels.sizes import ChannelSizes
from gmi_drl.comm.memory.mailbox_memory import Mailboxes
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.layout.waits import Waits


class ProxyHost:
    """The host of trainers for the proxies of GMIs of one other host, each of which has a thread of its own.

    Args:
        memory: Of `create_memory`; the caller closes it.
        mailboxes: Of the GMIs of this host; the caller closes them.
        hang_s: Seconds after which a living trainer counts as silent.
        waits: As of `join_as_agent`.

    Attributes:
        mapped: The memories.
    """

    def __init__(self, memory: int, mailboxes: Mailboxes, hang_s: float, waits: Waits | None = None) -> None:
        self.memory, self.mailboxes, self.hang_s, self.waits = memory, mailboxes, hang_s, waits
        self.mapped = MappedOnce(memory, mailboxes)
        self._copying = threading.Lock()
        self._version: int | None = None
        self._copy = torch.empty(0, dtype=torch.uint8)

    def notifier(self, gmi_id: int) -> Notifier:
        """A notifier of a GMI. From now on others see it end when it leaves, or with this process."""
        return Notifier(self.mailboxes, self.mapped.mailboxes, gmi_id, self.hang_s)

    def join_as_agent(self, gmi_id: int, sizes: ChannelSizes, predecessors: int = 0) -> LocalAgentEnd:
        """See `channels.join_as_agent`."""
        return join_as_agent(
            self.memory,
            self.mailboxes,
            gmi_id,
            sizes,
            self.hang_s,
            predecessors=predecessors,
            waits=self.waits,
            mapped=self.mapped,
        )

    def join_as_reader(self, gmi_id: int, sizes: ChannelSizes) -> ParameterReader:
        """See `channels.join_as_reader`."""
        return join_as_reader(self.memory, self.mailboxes, gmi_id, sizes, self.hang_s, self.waits, self.mapped)

    def newest(self, parameters: NewestParameters, nbytes: int) -> tuple[int, Tensor]:
        """The newest version of the parameters, and their bytes, uint8. These never change: all proxies send them."""
        with self._copying:
            if self._version is None or self._version != parameters.newest_version():
                copy = torch.empty(nbytes, dtype=torch.uint8)
                self._version, self._copy = parameters.read_into([copy]), copy
            return self._version, self._copy
