"""Options in a YAML file, with the names of flags.

    port: 6443
    store: sqlite:cluster.db
    feature-gates: {WatchList: false}
    apply: [config/crd, config/samples]

Values are parsed like those of flags. Nothing but the texts of the document is used: no YAML type, and no
object of a tag, is constructed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from kubewright.trusted_files import read_named_file

from .model import Option, suggestion

_MAX_BYTES = 1024 * 1024


class Entry(NamedTuple):
    """The texts of an option, and where they are: `FILE:LINE: NAME`."""

    texts: list[str]
    where: str


def read_config_file(path: Path, options: Iterable[Option]) -> dict[str, Entry]:
    """Return the entries of a file by option; raises `OSError`, or `ValueError` with file and line."""
    import yaml

    known = {one.name: one for one in options}
    text = read_named_file(path)
    if len(text) > _MAX_BYTES:
        raise ValueError(f"{path}: the file has more than {_MAX_BYTES} bytes")
    try:
        root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise ValueError(f"{path}{line}: not valid YAML: {problem or type(error).__name__}") from None
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise ValueError(f"{path}: expected options by name, as in port: 6443")
    found: dict[str, Entry] = {}
    for key, value in root.value if root is not None else ():
        line, name = f"{path}:{key.start_mark.line + 1}", str(key.value)
        if name not in known:
            raise ValueError(f"{line}: unknown option {name!r}{suggestion(name, known.values())}")
        if name in found:
            raise ValueError(f"{line}: {name} is set twice; see {found[name].where.rpartition(':')[0]}")
        found[name] = Entry(_texts(known[name], value, f"{line}: {name}"), f"{line}: {name}")
    return found


def _texts(option: Option, node: Any, where: str) -> list[str]:
    kind, form = option.kind, node.id
    is_pairs = kind.is_repeated and "=" in kind.metavar
    if form == "mapping" and is_pairs and all(value.id == "scalar" for _, value in node.value):
        return [f"{key.value}={value.value}" for key, value in node.value]
    if form == "sequence" and kind.is_repeated and all(each.id == "scalar" for each in node.value):
        return [each.value for each in node.value]
    if form != "scalar" or node.tag.endswith(":null"):
        expected = "pairs" if is_pairs else "a list of values" if kind.is_repeated else "a value"
        example = kind.text(option.default) or kind.example
        raise ValueError(f"{where}: expected {expected}, as in {option.name}: {example}")
    return [node.value]
