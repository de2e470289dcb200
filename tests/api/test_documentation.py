"""The examples in the book are run."""

import doctest
from pathlib import Path

import pytest

BOOK = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "examples"), [("api.md", 30), ("builtin-types.md", 15)])
def test_examples_of_a_chapter(page: str, examples: int) -> None:
    done = doctest.testfile(str(BOOK / page), module_relative=False)
    assert done.attempted > examples
    assert done.failed == 0
