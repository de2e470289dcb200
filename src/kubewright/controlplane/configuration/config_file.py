"""Configuration files of the control plane: one YAML document of the group `apiserver.config.k8s.io`.

`read_config_file` decodes one into a struct and rejects unknown fields. All errors are a `ConfigFileError`,
whose message begins with the path and names the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from kubewright.api.values.times import duration_nanoseconds
from kubewright.trusted_files import read_named_file

GROUP: Final = "apiserver.config.k8s.io"
_MAX_BYTES: Final = 1024 * 1024
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
T = TypeVar("T")


class ConfigFileError(ValueError):
    """A configuration file is not valid; the message names the file and the field."""


class ConfigStruct(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """Base class of the objects in a configuration file."""


def read_config_file(path: str | Path, kind: str, type_: type[T], versions: tuple[str, ...] = ("v1",)) -> T:
    """Read the configuration of a kind; raises `ConfigFileError`."""
    with naming_file(path):
        try:
            text = read_named_file(path)
        except OSError as error:
            raise ConfigFileError(f"cannot read the {kind}: {error.strerror}") from None
        if len(text) > _MAX_BYTES:
            raise ConfigFileError(f"the file has more than {_MAX_BYTES} bytes")
        try:
            document = yaml.load(text, Loader=_SafeLoader)  # noqa: S506 - a safe loader
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigFileError(f"not valid YAML: {error}") from None
        if not isinstance(document, dict):
            raise ConfigFileError(f"expected one {kind}")
        found = (document.pop("apiVersion", ""), document.pop("kind", ""))
        if found not in {(f"{GROUP}/{version}", kind) for version in versions}:
            raise ConfigFileError(
                f"apiVersion and kind are {found[0]!r} and {found[1]!r}, not {GROUP}/{versions[0]} and {kind}"
            )
        try:
            return msgspec.convert(document, type_)
        except msgspec.ValidationError as error:
            raise ConfigFileError(str(error)) from None


@contextmanager
def naming_file(path: str | Path) -> Iterator[None]:
    """Add the path to the message of a `ConfigFileError`."""
    try:
        yield
    except ConfigFileError as error:
        raise ConfigFileError(f"{path}: {error}") from None


def positive_seconds(text: str, at: str) -> float:
    """Return the seconds of a duration such as `3s`; raises `ConfigFileError` unless it is positive."""
    try:
        seconds = duration_nanoseconds(text) / 1e9
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigFileError(f"{at}: {text!r} is not a positive duration such as 3s")
    return seconds
