"""GMIs on several hosts. On each a supervisor opens its part of a layout for one launcher.

On its host a supervisor does what `open_layout.opened` does here: it claims and cuts the devices, makes what its GMIs
share, starts them, checks their shares, and forwards their messages. A `SupervisorStarter` starts supervisors.
"""
