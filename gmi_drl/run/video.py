"""Videos: MP4 (H.264, by PyAV) or GIF (by Pillow), in real time up to `LONGEST_S` a picture."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gmi_drl.errors import MachineError, UsageError

SUFFIXES = (".mp4", ".gif")
MOST_FPS = 50
"""A GIF cannot be faster, and more is not needed."""

LONGEST_S = 600
"""A picture of a GIF cannot be shown for longer than 655 s, and more is not needed."""

AddFrame = Callable[[npt.NDArray[np.uint8]], None]
"""Takes the next picture, `[height, width, 3]`, RGB."""


def stride_of(step_s: float) -> int:
    """Control steps of `step_s` seconds from one picture to the next."""
    return max(1, ceil(round(1 / (step_s * MOST_FPS), 6)))


def check_video(path: Path, size: tuple[int, int]) -> None:
    """Check that a video can be written, before anything is played.

    Raises:
        UsageError: if the suffix is another one, it is a folder, there is no folder for it, or an MP4's `size` (width,
            height, pixels) is odd.
        MachineError: if the library for it is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path}: a video ends in {' or '.join(SUFFIXES)}")
    if path.suffix.lower() == ".mp4" and (size[0] % 2 or size[1] % 2):
        raise UsageError(f"{size[0]}x{size[1]}: the width and height of an MP4 must be even")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    _library(path)


@contextmanager
def open_video(path: Path, size: tuple[int, int], frame_s: float) -> Iterator[AddFrame]:
    """Write a video, for the time of a `with` block. Its file appears when the block ends without an error.

    Args:
        path: With one of `SUFFIXES`.
        size: Width and height, pixels.
        frame_s: Seconds from one picture to the next; `LONGEST_S` at most are shown.

    Raises:
        UsageError, MachineError: see `check_video`; also if the file cannot be written.
    """
    check_video(path, size)
    write = _write_gif if path.suffix.lower() == ".gif" else _write_mp4
    draft = path.with_name(f".{path.stem}.draft{path.suffix.lower()}")
    try:
        with write(draft, size, min(frame_s, LONGEST_S)) as add:
            yield add
        draft.replace(path)
    except OSError as error:
        raise MachineError(f"{path}: the video cannot be written: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _write_mp4(path: Path, size: tuple[int, int], frame_s: float) -> Iterator[AddFrame]:
    av = _library(path)
    with av.open(str(path), "w", options={"movflags": "faststart"}) as file:
        stream = file.add_stream("libx264", rate=Fraction(1 / frame_s).limit_denominator(1000), options={"crf": "20"})
        (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"  # which every player can show

        def add(frame: npt.NDArray[np.uint8]) -> None:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))

        yield add
        file.mux(stream.encode())


@contextmanager
def _write_gif(path: Path, size: tuple[int, int], frame_s: float) -> Iterator[AddFrame]:
    """All pictures use the colours of the first, without dithering, so that parts without motion are not written again.

    A GIF counts in hundredths of a second: each picture ends at the hundredth nearest to its time. One that stays the
    same is written once, and shown for `LONGEST_S` at most.
    """
    image = _library(path)
    frames, counts, last = list[Any](), list[int](), b""

    def add(frame: npt.NDArray[np.uint8]) -> None:
        nonlocal last
        palette = {"palette": frames[0]} if frames else {}
        picture = image.fromarray(frame).quantize(128, dither=image.Dither.NONE, **palette)
        before, last = last, picture.convert("RGB").tobytes()
        if last == before:
            counts[-1] += 1
        else:
            frames.append(picture)
            counts.append(1)

    yield add
    ends = [round(100 * frame_s * count) for count in accumulate(counts, initial=0)]
    durations_ms = [10 * min(end - start, 100 * LONGEST_S) for start, end in pairwise(ends)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations_ms, loop=0)


def _library(path: Path) -> Any:
    """PyAV, or Pillow's `Image`."""
    try:
        if path.suffix.lower() == ".gif":
            from PIL import Image

            return Image
        import av
    except ImportError as error:
        raise MachineError(
            f"{path}: {error.name} is not installed. Install it with: pip install 'gmi-drl[video]'"
        ) from None
    return av
