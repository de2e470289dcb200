from __future__ import annotations

import pytest

from kubewright.scaffold.errors import ScaffoldError
from kubewright.scaffold.source.python_edits import (
    Import,
    add_import,
    extend_source,
    rewrite_imports,
    sort_imports,
)

MODULE = '''\
"""Webhooks."""

import os
from collections.abc import Iterable

from kubewright import (
    Client,  # the client
)

from .operator import operator

LIMIT = 3  # of the user


@operator.default(Shop)
def set_defaults(shop: Shop) -> None:
    # of the user
    shop.spec.size = LIMIT
'''


def test_missing_definitions_and_imports_are_added() -> None:
    addition = '''\
"""Webhooks."""

import os
from collections.abc import Iterable, Mapping

from kubewright import FieldError

from .operator import operator
from .shop_v1 import Shop

LIMIT = 9


def set_defaults() -> None:
    """Another."""


# Explains the function.
@operator.validate(Shop)
def validate(new: Shop) -> Iterable[FieldError]:
    """Validate."""
'''
    extended = extend_source(MODULE, addition, name="shop_webhook.py", first_party="shop")
    # The statement with a comment is kept, and the import is added as another statement.
    expected = MODULE.replace("import Iterable\n", "import Iterable, Mapping\n")
    expected = expected.replace(
        "    Client,  # the client\n)\n", "    Client,  # the client\n)\nfrom kubewright import FieldError\n"
    )
    expected = expected.replace("import operator\n\n", "import operator\nfrom .shop_v1 import Shop\n\n")
    expected += (
        "\n\n# Explains the function.\n@operator.validate(Shop)\n" + addition.partition("validate(Shop)\n")[2]
    )
    assert extended == expected
    assert extend_source(extended, addition, name="shop_webhook.py", first_party="shop") == extended


def test_statements_are_added_once() -> None:
    text = "converter = 1\nconverter.spoke(a)\n"
    assert extend_source(text, "converter = 2\nconverter.spoke(a)\nconverter.spoke(b)\n", name="x") == (
        "converter = 1\nconverter.spoke(a)\nconverter.spoke(b)\n"
    )


def test_syntax_errors_are_reported_with_their_line() -> None:
    with pytest.raises(ScaffoldError, match=r"shop.py:2: .*; correct it first, nothing was written"):
        extend_source("a = 1\ndef :\n", "b = 1\n", name="shop.py")


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("", Import(0, "a", ("b",)), "from a import b\n"),
        ('"""Doc."""\n', Import(0, "a", ("b",)), '"""Doc."""\n\nfrom a import b\n'),
        ("import os\n", Import(0, "a", ("b",)), "import os\n\nfrom a import b\n"),
        ("import a\n", Import(0, "os", ("b",)), "from os import b\n\nimport a\n"),
        ("import os\n\nimport c\n", Import(0, "a", ("b",)), "import os\n\nimport c\nfrom a import b\n"),
        ("from . import x\n", Import(0, "shop.a", ("b",)), "from shop.a import b\n\nfrom . import x\n"),
        ("from .a import x\n", Import(2, "z", ("y",)), "from ..z import y\nfrom .a import x\n"),
        ("from a import b\n", Import(0, "a", ("B", "C_D")), "from a import C_D, B, b\n"),
    ],
)
def test_imports_are_inserted_in_order(text: str, wanted: Import, expected: str) -> None:
    assert add_import(text, wanted, name="x", first_party="shop") == expected


def test_sorting_and_rewriting() -> None:
    text = "from .b import c\nfrom shop.z import y\nimport os\nfrom shop.z import a\n\nx = 1\n"
    assert sort_imports(text, name="x", first_party="shop") == (
        "import os\n\nfrom shop.z import a, y\n\nfrom .b import c\n\nx = 1\n"
    )

    def move(statement: Import) -> list[Import]:
        return [Import(0, "shop.a.b", statement.names)] if statement.level else [statement]

    rewritten = rewrite_imports(
        "import os\n\nfrom .b import c\n\nx = 1\n", move, name="x", first_party="shop"
    )
    assert rewritten == "import os\n\nfrom shop.a.b import c\n\nx = 1\n"
