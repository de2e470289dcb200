from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "types"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of example types, importable for the length of a test.

    The example operators have modules of the same names: those are set aside meanwhile.
    """
    names = {path.stem for path in EXAMPLES.iterdir()}
    for module in [each for each in sys.modules if each.partition(".")[0] in names]:
        monkeypatch.delitem(sys.modules, module)
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield EXAMPLES
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(EXAMPLES)):
            del sys.modules[name]
