"""A plugin of pytest by which coverage.py records which test ran a line. COVERAGE_PROCESS_START has switched it on."""

from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Make this test the current context. Processes that it starts read its name in PYTEST_CURRENT_TEST."""
    measuring = coverage.Coverage.current()
    assert measuring is not None, "coverage.py is not on: is COVERAGE_PROCESS_START set?"
    measuring.switch_context(item.nodeid)
    yield
    measuring.switch_context("")
