"""Templates: how the roles of a workload lie on GMIs (paper section 5.1). Pure data in, pure data out."""

from gmi_drl.templates.tcg_ex import tcg_ex

__all__ = ["tcg_ex"]
