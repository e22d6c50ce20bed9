"""Templates: how the roles of a workload lie on GMIs (paper section 5.1). Pure data in, pure data out."""

from gmi_drl.templates.tcg_ex import devices_of, tcg_ex

__all__ = ["devices_of", "tcg_ex"]
