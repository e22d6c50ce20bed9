"""The layouts of the commands that run one: from a file, or of this machine cut evenly."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.make_plan import even_plan, node_of
from gmi_drl.cli.output import named_backend, say
from gmi_drl.errors import UsageError
from gmi_drl.layout.backends import BACKENDS, PROCESS, require_applied

if TYPE_CHECKING:
    from gmi_drl.config.learners import LearnerConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.templates import Template


def make_layout(
    task: str,
    num_env: int,
    gmis_per_gpu: int | None,
    template: "Template",
    backend: str | None = None,
    learner: "LearnerConfig | None" = None,
) -> "Layout":
    """Cut this machine evenly.

    Args:
        task: What is run.
        num_env: Environments of each GMI.
        gmis_per_gpu: None for the usual number.
        template: What a GMI does.
        backend: What cuts its devices; None for the usual one. One that is for GPUs alone is refused on cores where
            the layout is opened.
        learner: What learns; None for the template's usual one.
    """
    node, name = node_of(None), named_backend(backend)
    by = name if node.num_gpus else PROCESS.name
    return cut_by(even_plan(task, node, template, num_env, gmis_per_gpu, by, learner=learner).layout, name)


def tell_untried(layout: "Layout") -> None:
    """Say that GMIs reduce in a way of which nobody knows that this machine can."""
    from gmi_drl.layout.reductions import IPC
    from gmi_drl.templates.cost import UNTRIED

    by_ipc = any(group.reduction == IPC.name for group in layout.groups.values())  # reasons stay when that is edited
    if by_ipc and UNTRIED in layout.reasons:
        say(f"gmi-drl: gradients meet in the memory of the GPU (IPC); {UNTRIED}")


def cut_by(layout: "Layout", backend: str | None) -> "Layout":
    """A layout with the backend that `--backend` names, or its own.

    Raises:
        UsageError: if there is none of this name, or it does not enforce what the layout asks for.
    """
    from pydantic import ValidationError

    if backend is None or named_backend(backend) == layout.backend:
        return layout
    try:
        return type(layout).model_validate(layout.model_dump() | {"backend": backend})
    except ValidationError as error:
        raise UsageError(f"--backend {backend}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def read_layout(path: Path, overrides: Mapping[str, object]) -> "Layout":
    """A layout file, which options that would decide the same must not contradict.

    What differs here from the machine that it was made for is told; whether it can run is found out where it starts.
    """
    from gmi_drl.files import load_yaml
    from gmi_drl.hardware.signature import differences, signature_of
    from gmi_drl.layout.layout import Layout

    given = [name for name, value in overrides.items() if value is not None]
    if given:
        raise UsageError(f"{', '.join(given)}: the layout file decides that, edit {path} or leave it out")
    layout = load_yaml(Layout, path)
    if layout.made_for and (differing := differences(layout.made_for, signature_of(node_of(None)))):
        say(f"gmi-drl: {path} {differing}")
    return layout


def wants_applied(layout: "Layout", *, here: bool) -> bool:
    """Whether whoever runs a layout has to give `--apply-mig`; what this machine cannot run as it is now is told.

    A machine that is elsewhere is taken to have no MIG instances yet.
    """
    from gmi_drl.gmi import refusals

    can_apply = bool(BACKENDS.find(layout.backend).applied)
    if not here:
        return can_apply
    now = refusals(layout)
    then = refusals(layout, apply_mig=True) if now and can_apply else now
    if then:
        say(f"gmi-drl: this machine cannot run that layout as it is now: {'; '.join(then)}")
    return bool(now) and can_apply


def check_applied(layout: "Layout", apply_mig: bool) -> None:
    """Refuse `--apply-mig` for a layout that has no MIG instances, before anything is made."""
    if apply_mig:
        require_applied(layout.backend)
