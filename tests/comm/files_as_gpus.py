"""Files that several processes map, in the place of a GPU's memory."""

import os
from itertools import count

import torch

from gmi_drl.comm.memory.cuda_ipc import HANDLE_BYTES

_numbers = count()


class Files:
    """What stands for `SharedDeviceMemory` and `MappedDeviceMemory`, in a folder; `handle` is the name of a file."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        for user in ("gmi_drl.comm.groups.ipc", "gmi_drl.comm.channels.gpu_direct"):
            monkeypatch.setattr(f"{user}.SharedDeviceMemory", self.shared)
            monkeypatch.setattr(f"{user}.MappedDeviceMemory", self.mapped)

    def shared(self, numel, device):
        return Shared(self.folder, numel)

    def mapped(self, handle, numel, device):
        return Mapped(self.folder, handle, numel)

    @property
    def unmapped(self):
        """How often something was."""
        return len(list(self.folder.glob("unmapped-*")))


class Shared:
    def __init__(self, folder, numel):
        name = f"{os.getpid()}-{next(_numbers)}"
        self.tensor = tensor_in(folder / name, numel)
        self.tensor.fill_(float("nan"))  # nobody has said that it is zero
        self.handle = name.encode().ljust(HANDLE_BYTES, b"\0")


class Mapped:
    def __init__(self, folder, handle, numel):
        self.folder = folder
        self.tensor = tensor_in(folder / handle.rstrip(b"\0").decode(), numel)

    def close(self):
        (self.folder / f"unmapped-{os.getpid()}-{next(_numbers)}").touch()


def tensor_in(path, numel):
    return torch.from_file(str(path), shared=True, size=numel)
