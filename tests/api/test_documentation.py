"""The examples in the book are run."""

import doctest
from pathlib import Path

BOOK = Path(__file__).parents[2] / "docs"


def test_examples_of_the_api_chapter() -> None:
    done = doctest.testfile(str(BOOK / "api.md"), module_relative=False)
    assert done.attempted > 30
    assert done.failed == 0
