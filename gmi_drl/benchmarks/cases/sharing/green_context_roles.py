"""Roles that only simulate, with one simulator or two at once, for the case `green_contexts`."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gmi_drl.benchmarks.cases.sharing.green_context_split import split
from gmi_drl.roles.probes.probe import Probe
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.run.phases import PHASE_NAMES, SIMULATE
from gmi_drl.tasks import TASKS, make_sim
from gmi_drl.tasks.sim import Sim


class Lane:
    """The CUDA stream of a simulator.

    Args:
        stream: The driver's handle of the stream; None for torch's current stream.
    """

    def __init__(self, stream: int | None = None) -> None:
        self._torch: Any = None
        if stream is not None:
            from gmi_drl.tasks.sim.warp_graph import stream_at

            self._torch = torch.cuda.ExternalStream(stream)  # type: ignore[no-untyped-call]
            self._warp = stream_at(self._torch.device, stream)

    def making(self) -> AbstractContextManager[Any]:
        """The context in which a simulator is made: Warp captures its graphs on this stream."""
        if self._torch is None:
            return nullcontext()
        import warp as wp

        return wp.ScopedStream(self._warp)  # type: ignore[no-any-return]

    def stepping(self) -> AbstractContextManager[Any]:
        """The context of everything else: graphs are launched on torch's current stream."""
        return nullcontext() if self._torch is None else torch.cuda.stream(self._torch)


class Simulators:
    """Simulators of a task that step one after another without waiting, each on its lane, with constant actions.

    Args:
        task: The task's name.
        num_env: Environments of all simulators together.
        device: The device of all simulators.
        threads: Threads of physics on cores.
        lanes: The lane of each simulator.
    """

    def __init__(self, task: str, num_env: int, device: torch.device, threads: int, lanes: Sequence[Lane]) -> None:
        definition = TASKS[task]
        self.spec, self.num_env, self.device, self._lanes = definition.spec, num_env, device, lanes
        self._sims: list[Sim] = []
        self._controls: list[torch.Tensor] = []
        each = max(1, num_env // len(lanes))
        noise = torch.Generator(device).manual_seed(0)
        actions = 2 * torch.rand(each, definition.spec.action.size, device=device, generator=noise) - 1
        resets = 2 * torch.rand(each, definition.reset_noise, device=device, generator=noise) - 1
        everywhere = torch.ones(each, dtype=torch.bool, device=device)
        self.wait()
        for lane in lanes:
            with lane.stepping(), lane.making():
                sim = make_sim(definition, each, str(device), threads)
                for name, value in definition.reset_state(resets).items():
                    sim.set(name, everywhere, value)
                sim.forward()
                self._controls.append(definition.control({name: sim.get(name) for name in definition.fields}, actions))
                self._sims.append(sim)
        self.wait()

    def step(self, actions: object = None) -> None:
        """Step all environments once, without waiting. `actions` has no effect."""
        for lane, sim, control in zip(self._lanes, self._sims, self._controls, strict=True):
            with lane.stepping():
                sim.step(control)

    def wait(self) -> None:
        """Wait until the device has finished its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        """Free all simulators."""
        self.wait()
        for sim in self._sims:
            sim.close()


class OneSimulator(Probe):
    """One simulator with all environments of the GMI. An iteration is `horizon` steps."""

    lanes: Callable[[torch.device], Sequence[Lane]] = staticmethod(lambda device: [Lane()])
    simulators: Simulators | None = None
    _seconds = 0.0

    def make_task(self, num_env: int, seed: int) -> Any:
        """See `Probe`."""
        assert self.mgr.layout.task is not None
        device, threads = self.mgr.device, len(self.mgr.gmi.cores)
        simulators = Simulators(self.mgr.layout.task, num_env, device, threads, self.lanes(device))
        self.mgr.tasks.append(simulators)
        return simulators

    def iterate(self, decide: Callable[[], Decision]) -> Decision:
        """See `Probe`."""
        assert self.simulators is not None
        started = time.monotonic()
        for _ in range(self.config.learner.horizon):
            self.simulators.step()
        self.simulators.wait()
        self._seconds = time.monotonic() - started
        return decide()

    def phases(self) -> dict[str, float]:
        """See `Probe`."""
        return dict.fromkeys(PHASE_NAMES, 0.0) | {SIMULATE.name: self._seconds}

    def detach_task(self) -> None:
        """See `Probe`."""
        self.simulators = None

    def attach_task(self, task: Any) -> None:
        """See `Probe`."""
        self.simulators = task


class OneStream(OneSimulator):
    """Two simulators on one stream."""

    lanes = staticmethod(lambda device: [Lane(), Lane()])


class TwoStreams(OneSimulator):
    """Two simulators on a stream each, which may use all SMs."""

    lanes = staticmethod(lambda device: [Lane(_stream(device)) for _ in range(2)])


class TwoParts(OneSimulator):
    """Two simulators on disjoint halves of the SMs."""

    lanes = staticmethod(lambda device: [Lane(part.stream) for part in split(2)])


def _stream(device: torch.device) -> int:
    """The handle of a stream of torch, which torch keeps."""
    return int(torch.cuda.Stream(device).cuda_stream)  # type: ignore[no-untyped-call]
