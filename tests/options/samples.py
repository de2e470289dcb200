"""Values of every option of a class, for tests of the front ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubewright.options.model import Option, declarations
from kubewright.tls.certificates import CertificateAuthority


def write_files(directory: Path) -> None:
    """Write the files that samples name."""
    (directory / "file").write_text("")
    (directory / "directory").mkdir()
    (directory / "ca.pem").write_bytes(CertificateAuthority.create("ca").certificate)


def sample(option: Option) -> str:
    """Return a valid text, which is not that of the default."""
    return "false" if option.default is True else option.kind.example


def samples_beside(cls: type, option: Option) -> dict[str, str]:
    """Return texts of all options that set the same field, by option."""
    return {one.name: sample(one) for one in declarations(cls)[option.keyword].options}


def value_of(cls: type, texts: dict[str, str], keyword: str) -> Any:
    """Return the value of a field for the texts of its options."""
    options, build = declarations(cls)[keyword]
    values = {one.name: one.kind.read([texts[one.name]]) for one in options if one.name in texts}
    return build(values) if build is not None else values[options[0].name]
