from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import grid_of
from gmi_drl.scheduler.cut_list import listed

NUMBERS = (1024, 4096, 16384, 65536)


def test_many_cuts_are_few_words():
    rest = [*grid_of(dict.fromkeys((2, 4, 3), NUMBERS)), *grid_of(dict.fromkeys((2, 4, 3), NUMBERS), "mps")]
    assert listed([Cut(1, 65536), *rest]) == "1 x 65536; 2 to 4 x 1024 to 65536 by process and mps"
    assert listed(rest[:4]) == "2 x 1024 to 65536"


def test_a_range_skips_nothing():
    assert listed(grid_of(dict.fromkeys((1, 2, 3, 5, 7, 8, 9, 10), (8,)))) == "1 to 3, 5, 7 to 10 x 8"
    several = grid_of({1: NUMBERS[:3]})
    assert listed(several) == "1 x 1024 to 16384"
    assert listed(several, [Cut(2, 2048)]) == "1 x 1024, 4096, 16384", "2048 is no part of it"


def test_those_that_differ_are_listed_apart():
    assert listed([Cut(1, 8), Cut(2, 8, "mps"), Cut(2, 8, "mps", capped=True), Cut(2, 16)]) == (
        "1 x 8; 2 x 8 by mps and capped mps; 2 x 16"
    )
    assert listed([]) == ""


def test_the_order_of_numbers_does_not_matter():
    assert listed([Cut(2, 8), Cut(2, 16), Cut(3, 16), Cut(3, 8)]) == "2, 3 x 8, 16"
