"""Examples of the documentation pages."""

import doctest
from pathlib import Path

import pytest

BOOK = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "examples"), [("api.md", 30), ("builtin-types.md", 15)])
def test_examples_of_documentation_page(page: str, examples: int) -> None:
    done = doctest.testfile(str(BOOK / page), module_relative=False)
    assert done.attempted > examples
    assert done.failed == 0
