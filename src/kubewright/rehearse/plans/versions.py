"""The previous version of an operator: a Git revision, a wheel, or a directory such as that of an image.

    with previous_version("v1.2.0", module="shop") as version:
        snapshot, result = run_previous_version(version, "shop:operator", snapshot, PlanOptions())

Its code runs in a Python process of its own, so that both versions can have modules of the same name. That
process gets the snapshot on its standard input, and returns the state in which the previous version is idle,
and what it would do from there; the plan of the new version starts in that state, and leaves out what both
do.

Dependencies come from the environment of this process. Those of an image directory are used for modules that
are not installed here.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kubewright.rehearse.snapshot import ClusterSnapshot

from .model import Plan

if TYPE_CHECKING:
    from .planner import PlanOptions

MAX_BYTES = 1 << 30
"""Largest size of the extracted files."""
MAX_DEPTH = 8
"""Levels of directories of an image in which a module is searched for."""


class VersionError(Exception):
    """A version cannot be run; the message names it and the remedy."""


class OldVersionInput(msgspec.Struct):
    """What the process of the previous version gets."""

    reference: str
    paths: list[str]
    """Directories before those of the environment."""
    extra_paths: list[str]
    """Directories after those of the environment."""
    objects: list[msgspec.Raw]
    kubernetes_version: str
    time: float
    is_redacted: bool
    assume: str
    service_account: str
    quiet: float
    limit: float
    fakes: list[str]
    redaction_key: bytes
    """So that equal values have equal placeholders."""


class OldVersionResult(msgspec.Struct):
    """What it returns."""

    objects: list[msgspec.Raw]
    time: float
    known: list[str]
    """Changes, events and conditions of the previous version, as texts."""
    errors: list[str]


@dataclass(frozen=True, slots=True)
class PreviousVersion:
    """The files of a version."""

    name: str
    directory: Path
    """The directory of the project, in which a program is started."""
    paths: tuple[Path, ...]
    extra_paths: tuple[Path, ...] = ()


def known_texts(plan: Plan) -> list[str]:
    """Return what a plan contains as texts that are equal if two versions do the same."""
    found = [repr(each.signature) for each in plan.changes]
    for entries in (plan.events, plan.conditions, plan.waiting):
        found += map(repr, entries)
    return found


def without_known(plan: Plan, known: Sequence[str]) -> None:
    """Remove from a plan what the previous version does as well."""
    both = frozenset(known)
    plan.changes = [each for each in plan.changes if repr(each.signature) not in both]
    plan.events = [each for each in plan.events if repr(each) not in both]
    plan.conditions = [each for each in plan.conditions if repr(each) not in both]
    plan.waiting = [each for each in plan.waiting if repr(each) not in both]


@contextlib.contextmanager
def previous_version(text: str, *, module: str, directory: Path | None = None) -> Iterator[PreviousVersion]:
    """Provide the files of a Git revision, wheel or directory; `directory` is that of the project.

    `module` is the module of the operator, which is searched for in a directory.
    """
    directory = directory or Path.cwd()
    path = directory / text
    with tempfile.TemporaryDirectory(prefix="kubewright-plan-") as scratch:
        target = Path(scratch)
        if path.is_dir():
            yield _of_directory(text, path, module)
        elif path.suffix == ".whl":
            _extract_wheel(path, target)
            yield PreviousVersion(text, directory, (target,))
        elif path.is_file():
            raise VersionError(f"{text} is not a wheel, a directory or a Git revision")
        else:
            found = _extract_revision(text, target, directory)
            yield PreviousVersion(text, found, (found / "src", found))


def _of_directory(name: str, path: Path, module: str) -> PreviousVersion:
    """Return the directory of a project, or that of an image with the project somewhere in it."""
    root = module.partition(".")[0]
    if not root:
        return PreviousVersion(name, path, (path / "src", path))
    found: list[Path] = []
    packages: list[Path] = []
    for folder, directories, files in os.walk(path):
        depth = len(Path(folder).relative_to(path).parts)
        directories[:] = (
            sorted(each for each in directories if each not in ("proc", "sys", "dev", "__pycache__", ".git"))
            if depth < MAX_DEPTH
            else []
        )
        if Path(folder).name in ("site-packages", "dist-packages"):
            packages.append(Path(folder))
        if f"{root}.py" in files or (root in directories and (Path(folder) / root / "__init__.py").is_file()):
            found.append(Path(folder))
    found.sort(key=lambda each: (len(each.parts), str(each)))
    if not found:
        raise VersionError(f"{name} contains no module {root!r}; choose the directory of the project")
    return PreviousVersion(name, path, (found[0],), tuple(each for each in packages if each != found[0]))


def _extract_wheel(path: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(each.file_size for each in archive.infolist()) > MAX_BYTES:
                raise VersionError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB")
            archive.extractall(target)  # noqa: S202 - zipfile corrects names that leave the directory
    except (OSError, zipfile.BadZipFile) as error:
        raise VersionError(f"cannot read {path.name}: {getattr(error, 'strerror', None) or error}") from None


def _extract_revision(revision: str, target: Path, directory: Path) -> Path:
    """Extract a Git revision; return the directory of the project in it."""
    commit = _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    prefix = _git(directory, "rev-parse", "--show-prefix").decode().strip()
    root = Path(_git(directory, "rev-parse", "--show-toplevel").decode().strip())
    content = _git(root, "archive", "--format=tar", commit.decode().strip())
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(target, filter="data")
    found = target / prefix
    if not found.is_dir():
        raise VersionError(f"{revision} does not contain the directory {prefix}")
    return found


def _git(directory: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - a revision follows --end-of-options
            ["git", *arguments],  # noqa: S607
            cwd=directory,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise VersionError(f"cannot run git: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "it is not a revision, a wheel or a directory"
        raise VersionError(f"{arguments[-1].removesuffix('^{commit}')}: {reason}")
    return done.stdout


def run_previous_version(
    version: PreviousVersion,
    reference: str,
    snapshot: ClusterSnapshot,
    options: PlanOptions,
) -> tuple[ClusterSnapshot, OldVersionResult]:
    """Run a version until it is idle; return the state then, and what it would do from there."""
    given = OldVersionInput(
        reference=reference,
        paths=[str(each) for each in version.paths],
        extra_paths=[str(each) for each in version.extra_paths],
        objects=[msgspec.Raw(each) for each in snapshot.objects],
        kubernetes_version=snapshot.kubernetes_version,
        time=snapshot.moment().timestamp(),
        is_redacted=snapshot.is_redacted,
        assume=options.assume,
        service_account=options.service_account,
        quiet=options.quiet,
        limit=options.limit,
        fakes=list(options.fakes),
        redaction_key=options.redactor.key,
    )
    done = subprocess.run(
        [sys.executable, "-m", "kubewright.rehearse.plans.old_version"],
        input=msgspec.json.encode(given),
        capture_output=True,
        cwd=version.directory,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it failed"]
        raise VersionError(f"{version.name} cannot be run: {lines[-1].removeprefix('Error: ')}")
    result = msgspec.json.decode(done.stdout, type=OldVersionResult)
    after = ClusterSnapshot(
        objects=[bytes(each) for each in result.objects],
        source=snapshot.source,
        kubernetes_version=snapshot.kubernetes_version,
        time=datetime.fromtimestamp(result.time, UTC),
        is_redacted=snapshot.is_redacted,
        notes=list(snapshot.notes),
    )
    return after, result
