"""Layouts for the commands that run one: read from a file, or made by cutting this machine evenly."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.make_plan import even_plan, node_of
from gmi_drl.cli.options import named_backend
from gmi_drl.cli.output import say
from gmi_drl.errors import UsageError
from gmi_drl.layout.backends import BACKENDS, PROCESS, require_applied

if TYPE_CHECKING:
    from gmi_drl.config.learners import LearnerConfig
    from gmi_drl.config.task_section import TaskSettings
    from gmi_drl.layout.layout import Layout
    from gmi_drl.templates import Template


def make_layout(
    task: str,
    num_env: int,
    gmis_per_gpu: int | None,
    template: "Template",
    backend: str | None = None,
    learner: "LearnerConfig | None" = None,
    played: "TaskSettings | None" = None,
) -> "Layout":
    """Cut this machine evenly into GMIs.

    Args:
        task: Its name.
        num_env: Environments of each GMI.
        gmis_per_gpu: None for the default.
        template: Decides the roles of the GMIs.
        backend: Cuts the devices; None for the default. One that cuts GPUs only is refused on cores later, when the
            layout is opened.
        learner: Its settings; None for the template's default.
        played: The section `task` of the configuration; None for the usual settings.
    """
    node, name = node_of(None), named_backend(backend)
    by = name if node.num_gpus else PROCESS.name
    plan = even_plan(task, node, template, num_env, gmis_per_gpu, by, learner=learner, played=played)
    return with_backend(plan.layout, name)


def warn_untried(layout: "Layout") -> None:
    """Warn that the GMIs sum gradients over IPC, if the plan could not try whether this machine can."""
    from gmi_drl.layout.reductions import IPC
    from gmi_drl.templates.cost import UNTRIED

    by_ipc = any(group.reduction == IPC.name for group in layout.groups.values())  # a file may be edited
    if by_ipc and UNTRIED in layout.reasons:
        say(f"gmi-drl: gradients are summed in GPU memory (IPC); {UNTRIED}")


def with_backend(layout: "Layout", backend: str | None) -> "Layout":
    """The layout with the backend that `--backend` names; unchanged for None.

    Raises:
        UsageError: if no backend has this name, or it cannot enforce what the layout asks for.
    """
    from pydantic import ValidationError

    if backend is None or named_backend(backend) == layout.backend:
        return layout
    try:
        return type(layout).model_validate(layout.model_dump() | {"backend": backend})
    except ValidationError as error:
        raise UsageError(f"--backend {backend}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def read_layout(given: "Path | Layout", overrides: Mapping[str, object]) -> "Layout":
    """Read a layout, and print how this machine differs from the one that it was made for.

    Whether the layout can run is found out where it starts.

    Raises:
        UsageError: if one of `overrides`, options that say what the file says, is not None.
    """
    from gmi_drl.files import load_yaml
    from gmi_drl.hardware.signature import differences, signature_of
    from gmi_drl.layout.layout import Layout

    decided = [name for name, value in overrides.items() if value is not None]
    if decided:
        edit = "change the layout" if isinstance(given, Layout) else f"edit {given}"
        raise UsageError(f"{', '.join(decided)}: the layout file decides that: {edit}, or leave the option out")
    layout = given if isinstance(given, Layout) else load_yaml(Layout, given)
    if layout.made_for and (differing := differences(layout.made_for, signature_of(node_of(None)))):
        say(f"gmi-drl: {'the layout' if isinstance(given, Layout) else given} {differing}")
    return layout


def needs_apply_mig(layout: "Layout", *, here: bool) -> bool:
    """Whether `--apply-mig` is needed to run a layout. Warns if this machine cannot run it as it is now.

    With `here` false the layout is for another machine, which is taken to have no MIG instances yet.
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


def check_apply_mig(layout: "Layout", apply_mig: bool) -> None:
    """Refuse `--apply-mig` for a layout without MIG instances, before anything is created."""
    if apply_mig:
        require_applied(layout.backend)
