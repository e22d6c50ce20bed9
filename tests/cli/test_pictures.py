import numpy as np
import pytest

from gmi_drl.cli.pictures import OwnPictures, tiled


@pytest.mark.parametrize(
    ("count", "height", "width", "size"),
    [(1, 210, 160, (210, 160)), (3, 210, 160, (420, 320)), (4, 20, 11, (320, 176)), (1, 5, 3, (320, 192))],
)
def test_tiles_are_even_and_large_enough(count, height, width, size):
    pictures = np.arange(1, count + 1, dtype=np.uint8)[:, None, None, None] * np.ones((1, height, width, 3), np.uint8)
    whole = tiled(pictures)
    assert whole.shape == (*size, 3)
    assert set(np.unique(whole)) - {0} == set(range(1, count + 1))


def test_a_task_draws_itself():
    class Task:
        def draw(self):
            return np.full((2, 400, 400, 3), 7, np.uint8)

    pictures = OwnPictures(Task())
    assert pictures.size == (800, 400) and (pictures.draw() == 7).all()
    pictures.close()
