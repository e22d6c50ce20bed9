"""A layout as inline SVG: devices, the GMIs that they are cut into, and their roles."""

from html import escape
from typing import Final

from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.units import counted, human_ranges

COLUMNS, GMI_WIDTH, GMI_HEIGHT, GAP, HEAD = 4, 128, 76, 8, 26
MOST_GMIS = 64
"""GMIs of a device that are drawn; more are counted."""

WIDTH: Final = COLUMNS * (GMI_WIDTH + GAP) + GAP


def layout_drawing(layout: Layout) -> str:
    """The figure."""
    parts, y = [], 0
    for device in layout.devices:
        drawn, height = _device(device, y)
        parts.append(drawn)
        y += height + GAP
    sizes = f"{counted(len(layout.gmis), 'GMI')}, {counted(layout.num_env, 'environment')}"
    words = f"{sizes}, {layout.template or 'no template'}"
    return (
        f"<figure><figcaption>Layout: {escape(words)}, backend {escape(layout.backend)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {y}" style="max-width:{WIDTH}px" role="img" aria-label="Layout">'
        f"{''.join(parts)}</svg></figure>"
    )


def _device(device: Device, y: int) -> tuple[str, int]:
    """One device at this height, and how high it is."""
    gmis = device.gmis[:MOST_GMIS]
    rows = -(-len(gmis) // COLUMNS)
    height = HEAD + rows * (GMI_HEIGHT + GAP)
    more = f", {len(device.gmis) - len(gmis)} more GMIs" if len(device.gmis) > len(gmis) else ""
    title = f"{f'{device.node}: ' if device.node else ''}{device.kind} {device.index}{more}"
    boxes = [
        _gmi(gmi, GAP + number % COLUMNS * (GMI_WIDTH + GAP), y + HEAD + number // COLUMNS * (GMI_HEIGHT + GAP))
        for number, gmi in enumerate(gmis)
    ]
    frame = f'<rect class="device" x="1" y="{y + 1}" width="{WIDTH - 2}" height="{height - 2}" rx="6"/>'
    return f'{frame}<text class="name" x="{GAP}" y="{y + 18}">{escape(title)}</text>{"".join(boxes)}', height


def _gmi(gmi: GMI, x: int, y: int) -> str:
    cores = f"core {human_ranges(gmi.cores)}" if len(gmi.cores) == 1 else f"cores {human_ranges(gmi.cores)}"
    where = cores if gmi.cores else ""
    lines = [
        ", ".join(gmi.roles[:2]),
        ", ".join(gmi.roles[2:]),
        f"{gmi.num_env} envs, {where}" if gmi.num_env else where,
    ]
    texts = "".join(
        f'<text x="{x + 8}" y="{y + 34 + 15 * number}" style="font-size:11px">{escape(line)}</text>'
        for number, line in enumerate(line for line in lines if line)
    )
    box = f'<rect class="box" x="{x}" y="{y}" width="{GMI_WIDTH}" height="{GMI_HEIGHT}" rx="5"/>'
    return f'{box}<text class="name" x="{x + 8}" y="{y + 17}">GMI {gmi.id}</text>{texts}'
