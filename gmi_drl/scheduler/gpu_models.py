"""Points of several GPU models: applies a profile to a node with mixed models, or with models that were not measured.

A training waits for its slowest GMI. So if all devices of a mixed node are cut alike, the point of the slowest model
holds for all. `heterogeneous.py` cuts each model in its own way.
"""

from collections.abc import Sequence

from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler.profile import Profile, ProfilePoint

Points = Sequence[ProfilePoint]


def for_node(profile: Profile, node: Node) -> tuple[Profile, list[str]]:
    """A profile with one point of each cut, which holds for every GPU of a node; and sentences about substitutes.

    Each model takes its own points, or those without a model. A model without any takes the points of others, which a
    sentence says. A cut that was not measured on each model is left out, so that cuts and backends are compared on the
    same GPUs. Cores take no points of GPUs.
    """
    if not any(point.model for point in profile.points):
        return profile, []
    if not node.num_gpus:
        return profile.model_copy(update={"points": tuple(point for point in profile.points if not point.model)}), []
    models = list(dict.fromkeys(_known(part.model) for part in node.used_models))
    own = {model: points_of(profile, model) for model in models}
    lacking = [model for model in models if not own[model]]
    measured = sorted({point.model for point in profile.points})
    used = [model for model in measured if _known(model) in models] or measured
    by_cut = [_by_cut(own[model], model) for model in models if own[model]]
    by_cut = by_cut or [_by_cut([one for one in profile.points if one.model == model], model) for model in measured]
    cuts = [cut for cut in by_cut[0] if all(cut in others for others in by_cut)]
    points = tuple(_slowest([known[cut] for known in by_cut]) for cut in cuts)
    substitutes = [f"no point is of {model}: those of {' and '.join(used)} are used" for model in lacking]
    return profile.model_copy(update={"points": points}), substitutes


def points_of(profile: Profile, model: str) -> list[ProfilePoint]:
    """The points of a model, and those without a model for cuts that it lacks."""
    name = _known(model)
    return list(_by_cut([point for point in profile.points if _known(point.model) in (name, "")], name).values())


def gpus_of(node: Node, model: str) -> Node:
    """The node with only the GPUs of a model in use, which is named as the node names it."""
    models = node.model_of_each_gpu
    return node.only(index for index in node.gpu_indices if models[index] == model)


def unlike_models(node: Node) -> list[str]:
    """The models of a node's GPUs by their names in the catalogue, if there are several; else an empty list."""
    models = list(dict.fromkeys(_known(part.model) for part in node.used_models))
    return models if len(models) > 1 else []


def no_common_point(node: Node, points: Points) -> str:
    """Why `for_node` found no point of a cut that this node can have."""
    measured = sorted({_known(point.model) for point in points if point.model})
    if not node.num_gpus:
        return f"they were measured on GPUs ({', '.join(measured)}), and {node.name} has none"
    models = dict.fromkeys(_known(part.model) for part in node.used_models)
    wanted = [model for model in models if model in measured] or measured
    return f"no cut was measured on each of {' and '.join(wanted)}" if len(wanted) > 1 else "no point is of its GPUs"


def _known(model: str) -> str:
    """The name of a model in the catalogue, or the given one if it is not there."""
    gpu = find_gpu(model)
    return gpu.name if gpu else model


def _by_cut(points: Points, model: str) -> dict[Cut, ProfilePoint]:
    """The points of a model by cut. If a cut has a point of this model and one of no model, the former counts."""
    return {point.cut: point for point in sorted(points, key=lambda point: _known(point.model) == model)}


def _slowest(points: Points) -> ProfilePoint:
    """The point of one cut for several models: the slowest speed, the most memory; not runnable if one is not."""
    if failed := next((point for point in points if not point.runnable), None):
        return failed
    slowest = min(points, key=lambda point: point.steps_per_second)
    largest = {name: max(getattr(point, name) for point in points) for name in ("memory_bytes", "host_bytes")}
    return slowest.model_copy(update=largest)
