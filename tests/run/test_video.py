from itertools import pairwise

import numpy as np
import pytest

from gmi_drl.errors import UsageError
from gmi_drl.run.video import LONGEST_S, check_video, open_video, stride_of

SIZE = (64, 48)


def frames(count):
    """A white square that moves from left to right over black."""
    for index in range(count):
        frame = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
        frame[8:24, 4 * index : 4 * index + 16] = 255
        yield frame


def write(path, count=9, frame_s=1 / 30):
    with open_video(path, SIZE, frame_s) as add:
        for frame in frames(count):
            add(frame)


def test_videos_have_at_most_50_pictures_a_second():
    assert [stride_of(step_s) for step_s in (1 / 60, 0.02, 0.01, 0.005, 0.1)] == [2, 1, 2, 4, 1]


def test_an_mp4_shows_the_pictures_in_real_time(tmp_path):
    import av

    write(tmp_path / "a.mp4")
    with av.open(str(tmp_path / "a.mp4")) as file:
        stream = file.streams.video[0]
        assert (stream.average_rate, stream.width, stream.height) == (30, *SIZE)
        read = [frame.to_ndarray(format="rgb24") for frame in file.decode(stream)]
    assert len(read) == 9
    for shown, given in zip(read, frames(9), strict=True):
        assert np.abs(shown.astype(int) - given).mean() < 12
    assert list(tmp_path.iterdir()) == [tmp_path / "a.mp4"]


def test_a_gif_keeps_time_in_hundredths(tmp_path):
    from PIL import Image

    write(tmp_path / "a.GIF")
    with Image.open(tmp_path / "a.GIF") as file:
        assert (file.n_frames, file.size, file.info["loop"]) == (9, SIZE, 0)
        durations_ms = []
        for index, given in enumerate(frames(9)):
            file.seek(index)
            durations_ms.append(file.info["duration"])
            assert np.abs(np.asarray(file.convert("RGB")).astype(int) - given).mean() < 1
    assert sum(durations_ms) == 300 and set(durations_ms) == {30, 40}


def test_a_gif_shows_a_picture_that_stays_the_same_for_the_longest_time(tmp_path):
    from PIL import Image

    first, second = frames(2)
    with open_video(tmp_path / "a.gif", SIZE, 300) as add:
        for frame in (first, first, first, second, second):
            add(frame)
    with Image.open(tmp_path / "a.gif") as file:
        shown = [file.seek(number) or file.info["duration"] for number in range(file.n_frames)]
    assert shown == [1000 * LONGEST_S, 600_000]


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_steps_of_a_day_are_shown_for_ten_minutes_each(tmp_path, suffix):
    import av

    write(tmp_path / f"day{suffix}", count=3, frame_s=86400.0)
    with av.open(str(tmp_path / f"day{suffix}")) as file:
        times = [frame.time for frame in file.decode(video=0)]
    assert np.allclose(np.diff(times), LONGEST_S)


def test_what_fails_leaves_no_file(tmp_path):
    (tmp_path / "a.gif").write_text("the one before")

    def fail():
        with open_video(tmp_path / "a.gif", SIZE, 0.02) as add:
            add(next(frames(1)))
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.gif", "the one before")]


def test_mistakes_are_refused_before_anything_is_drawn(tmp_path):
    (tmp_path / "b.mp4").mkdir()
    for path, size, message in (
        (tmp_path / "b.mp4", SIZE, r"b\.mp4 is a folder: name a file"),
        (tmp_path / "a.avi", SIZE, r"a.avi: a video ends in \.mp4 or \.gif"),
        (tmp_path / "a.mp4", (65, 48), "65x48: the width and height of an MP4 must be even"),
        (tmp_path / "none" / "a.gif", SIZE, "there is no folder .*none"),
    ):
        with pytest.raises(UsageError, match=message):
            check_video(path, size)


def test_neighbouring_frames_differ():
    assert all((one != other).any() for one, other in pairwise(frames(9))), "or the tests above would show nothing"
