"""Points of unlike GPUs: what a profile promises for a node that has several models, or others than were measured.

A training waits for its slowest GMI, so where all devices of a mixed node are cut alike they do what they do on the
model on which that is slowest; `uneven.py` cuts each model in its own way.
"""

from collections.abc import Sequence

from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import Profile, ProfilePoint

Points = Sequence[ProfilePoint]


def for_node(profile: Profile, node: Node) -> tuple[Profile, list[str]]:
    """A profile with one point of each cut, which holds for every GPU of a node, and what to say of that.

    Each model takes its own points, or those that name no model. One that has none takes what others promise, and a
    sentence tells so. A cut that was not measured on each model that is taken is left out, so that cuts and backends
    are compared on the same GPUs. Cores take no points of GPUs.
    """
    if not any(point.model for point in profile.points):
        return profile, []
    if not node.num_gpus:
        return profile.model_copy(update={"points": tuple(point for point in profile.points if not point.model)}), []
    models = list(dict.fromkeys(_known(part.model) for part in node.used_models))
    own = {model: points_of(profile, model) for model in models}
    lacking = [model for model in models if not own[model]]
    measured = sorted({point.model for point in profile.points})
    by_cut = [_by_cut(own[model], model) for model in models if own[model]]
    by_cut = by_cut or [_by_cut([one for one in profile.points if one.model == model], model) for model in measured]
    cuts = [cut for cut in by_cut[0] if all(cut in others for others in by_cut)]
    points = tuple(_slowest([known[cut] for known in by_cut]) for cut in cuts)
    told = [f"no point is of {model}: those of {' and '.join(measured)} stand for it" for model in lacking]
    return profile.model_copy(update={"points": points}), told


def points_of(profile: Profile, model: str) -> list[ProfilePoint]:
    """The points that hold for a model: those that name it and those that name none, of one cut the former."""
    name = _known(model)
    return list(_by_cut([point for point in profile.points if _known(point.model) in (name, "")], name).values())


def gpus_of(node: Node, model: str) -> Node:
    """The node, of which only the GPUs of a model are used, as it names that."""
    models = node.model_of_each_gpu
    return node.only(index for index in node.gpu_indices if models[index] == model)


def unlike_models(node: Node) -> list[str]:
    """The models of a node's GPUs by the catalogue's names, if they are several; else none."""
    models = list(dict.fromkeys(_known(part.model) for part in node.used_models))
    return models if len(models) > 1 else []


def no_common_point(node: Node, points: Points) -> str:
    """Why `for_node` leaves none of some points, which the node could be cut by."""
    measured = sorted({_known(point.model) for point in points if point.model})
    if not node.num_gpus:
        return f"they were measured on GPUs ({', '.join(measured)}), and {node.name} has none"
    models = dict.fromkeys(_known(part.model) for part in node.used_models)
    wanted = [model for model in models if model in measured] or measured
    return f"no cut was measured on each of {' and '.join(wanted)}" if len(wanted) > 1 else "no point is of its GPUs"


def _known(model: str) -> str:
    """The catalogue's name of a model, which may have several."""
    gpu = find_gpu(model)
    return gpu.name if gpu else model


def _by_cut(points: Points, model: str) -> dict[Cut, ProfilePoint]:
    """The points of a model: those that name it go before those that name none."""
    return {point.cut: point for point in sorted(points, key=lambda point: _known(point.model) == model)}


def _slowest(points: Points) -> ProfilePoint:
    """Of one cut on several models: as slow as the slowest and as large as the largest, or one that does not run."""
    if failed := next((point for point in points if not point.runnable), None):
        return failed
    slowest = min(points, key=lambda point: point.steps_per_second)
    largest = {name: max(getattr(point, name) for point in points) for name in ("memory_bytes", "host_bytes")}
    return slowest.model_copy(update=largest)
