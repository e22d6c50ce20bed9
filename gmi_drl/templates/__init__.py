"""Templates: which GMI has which roles of a workload (paper section 5.1). Pure data in, pure data out."""

from gmi_drl.errors import UsageError
from gmi_drl.layout.layout import Layout
from gmi_drl.registry import Registry
from gmi_drl.templates.decoupled import DECOUPLED, Decoupled
from gmi_drl.templates.even import (
    backend_refusal,
    devices_of,
    environments_of,
    mapping_of,
    more_gmis,
    require_division,
    usual_gmis_per_gpu,
)
from gmi_drl.templates.tcg import TCG
from gmi_drl.templates.tcg_ex import TCG_EX
from gmi_drl.templates.tdg import TDG
from gmi_drl.templates.tdg_ex import TDG_EX
from gmi_drl.templates.template import Purpose, Template
from gmi_drl.templates.workers import WORKERS

__all__ = [
    "DECOUPLED",
    "TCG",
    "TCG_EX",
    "TDG",
    "TDG_EX",
    "TEMPLATES",
    "WORKERS",
    "Decoupled",
    "Purpose",
    "Template",
    "backend_refusal",
    "devices_of",
    "environments_of",
    "mapping_of",
    "more_gmis",
    "require_division",
    "template_for",
    "template_named",
    "template_of",
    "unchecked_template_for",
    "usual_gmis_per_gpu",
]

TEMPLATES: Registry[Template] = Registry(
    "template", "gmi_drl.templates", (TCG_EX, TCG, TDG_EX, TDG, DECOUPLED, WORKERS)
)
"""Third parties add entries of their own by entry points: `NAME = "module:ENTRY"`, a `Template`."""


def template_named(text: str) -> Template:
    """The template of this name, or the usual one if `text` is a purpose.

    Raises:
        UsageError: if there is none.
    """
    usual: dict[str, Template] = {template.purpose: template for template in (TCG_EX, TCG)}
    return usual.get(text) or TEMPLATES.find(text, beside=usual)


def template_of(layout: Layout) -> Template:
    """The template that a layout names.

    Raises:
        UsageError: if it names none, or one that does not exist.
    """
    if layout.template is None:
        raise UsageError(
            "the layout names no template: add `template: TCG_EX` or another, or make a layout with `gmi-drl plan`"
        )
    return TEMPLATES.find(layout.template)


def template_for(layout: Layout, purpose: Purpose) -> Template:
    """The template of a layout, checked.

    Raises:
        UsageError: with every mistake; or as `unchecked_template_for` does.
    """
    template = unchecked_template_for(layout, purpose)
    if mistakes := template.check(layout):
        raise UsageError("; ".join(mistakes))
    return template


def unchecked_template_for(layout: Layout, purpose: Purpose) -> Template:
    """The template of a layout, for who tells what `Template.check` finds with mistakes of other kinds.

    Raises:
        UsageError: if the layout names no template, or one for another purpose.
    """
    template = template_of(layout)
    if purpose == "serving" and template.serving is not None and not layout.with_role("trainer"):
        template = template.serving
    if template.purpose != purpose:
        remedy = f"make another with `gmi-drl plan --template {purpose}`"
        raise UsageError(f"a layout by {template.name} is for {template.purpose}, not for {purpose}: {remedy}")
    return template
