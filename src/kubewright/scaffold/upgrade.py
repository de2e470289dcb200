"""`plan_upgrade`: bring the generated files of a project up to the installed version.

    plan = plan_upgrade(Path("shop"))
    print(plan.diff())
    plan.apply()

Each generated file is merged from three texts: the text that was generated before (the base in the scaffold
lock), the file as it is now, and the text that the templates generate today. `plan_upgrade` writes nothing.

| file | effect |
|---|---|
| unchanged by the user | becomes the new text |
| changed by the user | both changes; those to the same lines are a conflict with the markers of git |
| deleted by the user | stays deleted |
| new in the templates | is created, unless a file of this name exists |
| no longer in the templates | is removed if the user has not changed it |
| derived from a file of the user | is not changed |

In `pyproject.toml` and `kubewright.toml`, renamed keys of `[tool.kubewright]` get their present names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, Literal

import kubewright
from kubewright.manifests.settings import RENAMED_KEYS, SETTINGS_FILES

from .errors import ScaffoldError
from .files import Changes, FileWriter
from .lock import LOCK_FILE, GeneratedFile, ScaffoldLock
from .render import COPY, RenderedFile, render_project
from .source.merge import has_conflicts, merge, split_lines
from .source.toml_edits import rename_key

Action = Literal["create", "change", "remove"]

_REQUIREMENT: Final = re.compile(r"""(["']kubewright(?:\[[^\]"']*\])?\s*>=\s*)([0-9][0-9.]*)(?=\s*["',;])""")


@dataclass(frozen=True)
class FileUpgrade:
    """The change of one file."""

    name: str
    action: Action
    before: str = ""
    after: str = ""
    conflicts: tuple[int, ...] = ()
    """Lines of `after` at which a conflict starts."""

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old = "/dev/null" if self.action == "create" else f"a/{self.name}"
        new = "/dev/null" if self.action == "remove" else f"b/{self.name}"
        return "".join(_diff_lines(self.before, self.after, old, new))

    def to_json(self) -> dict[str, Any]:
        """Return the change as JSON."""
        return {
            "file": self.name,
            "action": self.action,
            "conflicts": list(self.conflicts),
            "diff": self.diff(),
        }


@dataclass
class UpgradePlan:
    """Changes of the files of a project. Nothing is written before `apply`."""

    directory: Path
    files: list[FileUpgrade] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    """Files that are not changed although their template did, with the reason."""
    _recorded: dict[str, GeneratedFile | None] = field(default_factory=dict)
    """New entries of the lock; `None` removes one."""

    @property
    def conflicts(self) -> list[str]:
        """Places of conflicts as `file:line`, in the files that `apply` writes."""
        return [f"{each.name}:{line}" for each in self.files for line in each.conflicts]

    @property
    def removals(self) -> list[FileUpgrade]:
        """Files that are no longer generated and that the user has not changed."""
        return [each for each in self.files if each.action == "remove"]

    def diff(self) -> str:
        """Return all changes as unified diffs."""
        return "".join(each.diff() for each in self.files)

    def apply(self, *, remove: bool = True) -> Changes:
        """Write the files and the lock. Without `remove`, files that are no longer generated are kept."""
        lock = ScaffoldLock.read(self.directory)
        writer = FileWriter(self.directory, lock)
        changes = writer.changes
        for each in self.files:
            match each.action:
                case "create":
                    writer.create(each.name, each.after, "")
                case "change":
                    writer.replace(each.name, _with_line_ends(self.directory / each.name, each.after))
                case "remove" if remove:
                    writer.delete(each.name)
                    changes.removed.append(each.name)
        for name, recorded in self._recorded.items():
            if recorded is not None:
                lock.files[name] = recorded
            else:
                lock.files.pop(name, None)
        if self.files or self._recorded:
            writer.commit()
        return changes


def plan_upgrade(directory: Path) -> UpgradePlan:
    """Return the changes of a project by newer templates; raise `ScaffoldError` if it cannot be upgraded."""
    lock = ScaffoldLock.read(directory)
    _check_versions(lock)
    plan = UpgradePlan(directory)
    rendered = render_project(lock)
    sets = {each.templates for each in rendered.values()}
    for name in sorted({*lock.files, *rendered, *SETTINGS_FILES}):
        recorded, new = lock.files.get(name), rendered.get(name)
        current = _read(directory / name)
        if recorded is None:
            _plan_unrecorded(plan, name, current, new)
        elif recorded.templates == COPY or (new is None and recorded.templates not in sets):
            continue  # not from templates, or of a set that is rendered by its own command only
        elif new is None:
            _plan_removal(plan, name, current, recorded)
        elif current is None:
            if new.text != recorded.base:
                plan.kept[name] = "you deleted it"
        else:
            _plan_merge(plan, name, current, recorded, new)
    return plan


def _plan_unrecorded(plan: UpgradePlan, name: str, current: str | None, new: RenderedFile | None) -> None:
    """Plan a new file of the templates, or a settings file of the user."""
    if current is None:
        if new is not None:
            plan.files.append(FileUpgrade(name, "create", after=new.text))
            plan._recorded[name] = _generated(new)
    elif name in SETTINGS_FILES:
        after = _upgrade_settings(current, name)
        if after != current:
            plan.files.append(FileUpgrade(name, "change", current, after))
    elif new is not None:
        plan.kept[name] = "it was not generated"


def _plan_removal(plan: UpgradePlan, name: str, current: str | None, recorded: GeneratedFile) -> None:
    if current == recorded.base:
        plan.files.append(FileUpgrade(name, "remove", before=current))
        return
    plan._recorded[name] = None
    if current is not None:
        plan.kept[name] = "it is no longer generated, and you changed it; it is yours now"


def _plan_merge(
    plan: UpgradePlan, name: str, current: str, recorded: GeneratedFile, new: RenderedFile
) -> None:
    base, yours = recorded.base, current
    if name in SETTINGS_FILES:
        base, yours = _upgrade_settings(base, name), _upgrade_settings(yours, name)
    if new.text == recorded.base and yours == current:
        return
    if has_conflicts(current):
        raise ScaffoldError(f"{name} has conflicts of an earlier merge; resolve them, then upgrade again")
    merged = merge(base, yours, new.text, theirs_label=f"kubewright {kubewright.__version__}")
    plan._recorded[name] = _generated(new)
    if merged.text != current:
        plan.files.append(FileUpgrade(name, "change", current, merged.text, merged.conflicts))


def _generated(new: RenderedFile) -> GeneratedFile:
    return GeneratedFile(kubewright.__version__, new.templates, new.text)


def _upgrade_settings(text: str, name: str) -> str:
    """Return a settings file with the present names of keys and the installed version as the minimum.

    Both are done before the merge, so that they do not conflict with dependencies that the user has added in
    the same line.
    """
    prefix = ("tool", "kubewright") if name == "pyproject.toml" else ()
    for old, new in RENAMED_KEYS.items():
        text = rename_key(text, (*prefix, *old), (*prefix, *new), name=name)

    def raise_minimum(found: re.Match[str]) -> str:
        installed = kubewright.__version__
        older = _version(found[2]) < _version(installed)
        return f"{found[1]}{installed if older else found[2]}"

    return _REQUIREMENT.sub(raise_minimum, text) if name == "pyproject.toml" else text


def _check_versions(lock: ScaffoldLock) -> None:
    newest = max((each.version for each in lock.files.values()), key=_version, default="0")
    if _version(newest) > _version(kubewright.__version__):
        raise ScaffoldError(
            f"{LOCK_FILE} was written by kubewright {newest}, and {kubewright.__version__} is installed; "
            f"run pip install 'kubewright>={newest}'"
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ScaffoldError(f"cannot read {path}: {error}") from None


def _with_line_ends(path: Path, text: str) -> str:
    """Return a text with the line ends that a file has."""
    return text.replace("\n", "\r\n") if b"\r\n" in path.read_bytes() else text


def _diff_lines(before: str, after: str, old: str, new: str) -> Iterator[str]:
    for line in unified_diff(split_lines(before), split_lines(after), old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
