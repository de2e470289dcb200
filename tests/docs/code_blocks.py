"""The Python blocks of the documentation as modules that a type checker can read.

Each block becomes a module of its own. Names that a block uses and does not define are imported from the last
earlier block of the page that defines them, from `assumed_names.py`, which declares what pages assume of
their reader (a client, a type, an operator), or from the public packages of the library and the standard
library: fragments leave out imports. A name that is in none of them is an error. A block with `await` at the
top is the body of a coroutine.

A comment on the line before a block changes this:

- `<!-- block: assumes NAME, NAME -->`: values of any type, such as helper functions of the reader
- `<!-- block: not checked: REASON -->`: excludes the block
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import symtable
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASSUMED = Path(__file__).with_name("assumed_names.py")
BLOCK = re.compile(
    r"^(?: *<!-- block: (?P<option>.*?) -->\n\n?)?"
    r"(?P<indent> *)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
INCLUDE = '--8<-- "'
"""Includes a part of a file, which is checked as a file."""
PACKAGES = (
    *(
        "kubewright",
        "kubewright.api",
        "kubewright.api.core.v1",
        "kubewright.api.apps.v1",
        "kubewright.client",
    ),
    *("kubewright.testing", "kubewright.controller", "kubewright.manager", "kubewright.webhook"),
    *("kubewright.cache", "kubewright.extension", "kubewright.apiserver", "kubewright.storage"),
    *("kubewright.controlplane", "kubewright.explore", "kubewright.composition", "kubewright.manifests"),
    *("kubewright.workloads.scheduler", "kubewright.workloads.cloud", "kubewright.workloads.nodes"),
    *(
        "kubewright.workloads",
        "kubewright.api.coordination.v1",
        "kubewright.node",
        "kubewright.node.csi",
        "typing",
        "collections.abc",
        "datetime",
        "pathlib",
    ),
)
"""Packages whose names fragments use without an import, in this order."""
MODULES = {*sys.stdlib_module_names, "aiohttp", "click", "pytest", "yaml"} - {"datetime"}
IMPLICIT = {*dir(builtins), "__file__", "__name__"}


@dataclass(frozen=True)
class Block:
    """A block of Python in a page."""

    page: str
    number: int
    line: int
    code: str
    option: str

    @property
    def module(self) -> str:
        """Name of the module of the block."""
        return f"{self.page.replace('-', '_').replace('/', '_')}_{self.number}"

    @property
    def assumed(self) -> set[str]:
        """Names of any type that the block uses."""
        names = self.option.removeprefix("assumes ") if self.option.startswith("assumes ") else ""
        return {each.strip() for each in names.split(",") if each}

    @property
    def place(self) -> str:
        """Page and line."""
        return f"{self.page}.md:{self.line}"

    @property
    def is_coroutine(self) -> bool:
        """Whether the block awaits outside of a function."""
        return any(_awaits(node) for node in ast.parse(self.code).body)


def _awaits(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        return False
    if isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor | ast.Return | ast.Yield):
        return True
    return any(_awaits(child) for child in ast.iter_child_nodes(node))


def blocks_of(path: Path) -> Iterator[Block]:
    """Return the blocks of a page."""
    text = path.read_text(encoding="utf-8")
    for number, found in enumerate(BLOCK.finditer(text), 1):
        # Names of the reader's own modules are resolved as if the import was left out.
        code = re.sub(r"^from \.\w* import [^\n]*$", "", textwrap.dedent(found["code"]), flags=re.MULTILINE)
        page = path.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")
        yield Block(page, number, text.count("\n", 0, found.start("code")) + 1, code, found["option"] or "")


def defined_names(code: str) -> set[str]:
    """Return the names that a module binds."""
    table = symtable.symtable(code, "block", "exec")
    return {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}


def used_names(code: str) -> set[str]:
    """Return the names that a module uses and does not bind, also within its functions."""
    table = symtable.symtable(code, "block", "exec")
    own = defined_names(code)

    def free(scope: symtable.SymbolTable) -> Iterator[str]:
        for symbol in scope.get_symbols():
            if symbol.is_global() or (scope is table and symbol.is_referenced()):
                yield symbol.get_name()
        for child in scope.get_children():
            yield from free(child)

    return {name for name in free(table) if name not in own and name not in IMPLICIT}


def _binding(name: str, block: Block, earlier: dict[str, str], assumed: set[str]) -> str:
    """Return the line that binds a name in the module of a block; empty if nothing defines it."""
    if name in block.assumed:
        return f"from any_names import {name} as {name}\n"
    if name in earlier:
        return f"from {earlier[name]} import {name} as {name}\n"
    if name in assumed:
        return f"from assumed_names import {name} as {name}\n"
    if name in MODULES:
        return f"import {name}\n"
    for package in PACKAGES:
        module = importlib.import_module(package)
        if name in dir(module) and not inspect.ismodule(getattr(module, name, inspect)):
            return f"from {package} import {name} as {name}\n"
    return ""


def write_modules(directory: Path, pages: list[Path]) -> dict[str, Block]:
    """Write the modules of all blocks of some pages and return the blocks by module."""
    (directory / ASSUMED.name).write_text(ASSUMED.read_text(encoding="utf-8"), encoding="utf-8")
    stub = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
    for name in ("shops", "certificate_v1"):
        (directory / f"{name}.py").write_text("from assumed_names import *\n", encoding="utf-8")
    (directory / "any_names.pyi").write_text(stub, encoding="utf-8")
    assumed = defined_names(ASSUMED.read_text(encoding="utf-8"))
    written: dict[str, Block] = {}
    for page in pages:
        earlier: dict[str, str] = {}
        for block in blocks_of(page):
            if block.option.startswith("not checked: ") or INCLUDE in block.code:
                continue
            ast.parse(block.code)
            names = used_names(block.code)
            lead = "".join(_binding(name, block, earlier, assumed) for name in sorted(names))
            future, body = "from __future__ import annotations\n", block.code
            body = body.replace(future, "", 1)
            if block.is_coroutine:
                returns = "object" if re.search(r"^\s*return\s+\S", body, re.MULTILINE) else "None"
                body = f"async def block() -> {returns}:\n" + textwrap.indent(body, "    ")
            else:
                earlier |= dict.fromkeys(defined_names(block.code), block.module)
            text = future + lead + f"# {block.place}\n" + body
            (directory / f"{block.module}.py").write_text(text, encoding="utf-8")
            written[block.module] = block
    return written
