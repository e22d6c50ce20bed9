"""Layouts of one device cut into equal GMIs: by plain sharing, by MPS, and by MPS with caps."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks.case import Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.errors import GmiError, MachineError

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.cut import Cut
    from gmi_drl.layout.layout import Layout
    from gmi_drl.templates import Template

PLAIN, MPS, CAPPED_MPS = "process", "mps", "capped mps"
"""Ways to share a device (`Cut.way`). With capped MPS each GMI may use at most an equal part of the SMs."""

LABELS = {PLAIN: "plain sharing", MPS: "MPS", CAPPED_MPS: "capped MPS"}


def ways() -> tuple[str, ...]:
    """The ways in which GMIs can share a device here: with MPS if it is available."""
    return (PLAIN,) if requirements.warp_on_gpu() or requirements.mps() else (PLAIN, MPS, CAPPED_MPS)


def sizes_of(way: str, sizes: Sequence[int], node: "Node") -> list[int]:
    """The numbers of GMIs in `sizes` that the first device can have. A single GMI is never capped."""
    return [size for size in sizes if size <= most_gmis(node) and (size > 1 or way != CAPPED_MPS)]


def one_device(node: "Node") -> "Node":
    """The node with only its first GPU, and all its cores; the node itself if it has no other GPU.

    Speeds that a plan has measured there are stored by node, so they are known here, too.
    """
    if node.gpus is None or node.num_gpus == 1:
        return node
    first = node.gpus[0] if isinstance(node.gpus, tuple) else node.gpus
    return node.model_copy(update={"gpus": first.model_copy(update={"count": 1}), "link": "none", "links": ()})


def most_gmis(node: "Node") -> int:
    """The largest number of GMIs on the first device, each of which needs a core."""
    from gmi_drl.templates import devices_of

    return devices_of(one_device(node))[1]


def cut_by(way: str, gmis: int, num_env: int = 1) -> "Cut":
    """A device cut into `gmis` GMIs this way."""
    from gmi_drl.layout.cut import Cut

    is_capped = way == CAPPED_MPS
    return Cut(gmis, num_env, MPS if is_capped else way, capped=is_capped)


def shared(task: str, node: "Node", template: "Template", gmis: int, way: str, num_env: int = 1) -> "Layout":
    """The layout of a node's first device in `gmis` GMIs. The reduction is the fastest by `measure_speeds`."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.profiler.speeds import known_communication
    from gmi_drl.workload import TASK_SPECS

    spec, device, cut = TASK_SPECS[task], one_device(node), cut_by(way, gmis, num_env)
    communication = known_communication(spec, default_config(spec).learner, device, template, cut.backend)
    return template.lay_out(spec, device, cut, communication=communication)


def measure_speeds(node: "Node", backends: Iterable[str]) -> None:
    """Measure how fast GMIs of the first GPU reduce, once per machine, so that `shared` can take the fastest way."""
    import math

    from gmi_drl.profiler.budget import Budget
    from gmi_drl.profiler.speeds import speeds_here

    if node.num_gpus:
        speeds_here(one_device(node), backends, Budget(math.inf))


@contextmanager
def those_that_run(sides: Sides) -> Iterator[Sides]:
    """Run each side once as a warm-up, and keep those that run. The first one's detail `left_out` has the others.

    Raises:
        GmiError: if the first side does not run.
        MachineError: if no other side runs.
    """
    first, *_ = sides
    running: dict[str, Side] = {}
    left_out: dict[str, str] = {}
    for name, side in sides.items():
        try:
            side()
        except GmiError as error:
            if name == first:
                raise
            left_out[name] = str(error).splitlines()[0]
        else:
            running[name] = side
    if len(running) == 1:
        raise MachineError("; ".join(f"{name}: {why}" for name, why in left_out.items()))
    yield running | ({first: with_details(running[first], {"left_out": left_out})} if left_out else {})


def with_details(side: Side, details: dict[str, Any]) -> Side:
    """A side whose samples have these details, too."""

    def measure() -> Sample:
        sample = side()
        return Sample(sample.value, {**sample.details, **details})

    return measure
