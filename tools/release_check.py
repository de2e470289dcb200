"""Check that this tree can be released: `make release-check`.

1. wheels and sdist are built twice and have the same bytes
2. the wheel is installed in an empty environment of each supported Python that is installed, and imported
3. the quick start of the README runs from the wheel
4. `dist/sbom.cdx.json` lists what is installed with it (CycloneDX), and every license is an accepted one
5. imports of the package are declared dependencies
6. the public names are typed completely (`pyright --verifytypes`)
7. the public surface is the recorded one, and the changelog has the version

Nothing is published. Each check prints one line; the exit code is 1 if one of them fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ACCEPTED = re.compile(
    r"apache|mit\b|bsd|isc|python|psf|mpl|mozilla|unlicense|public domain|zlib|hpnd", re.IGNORECASE
)
"""Licenses of dependencies that an Apache-2.0 project can be used with."""
MINIMUM_TYPED = 83.0
"""Percentage of symbols whose type pyright knows, also in private modules; it must not fall."""


class Failure(Exception):
    """A check failed; the message is one line."""


def run(command: Sequence[str | Path], **options: Any) -> str:
    """Run a command and return its output; raise `Failure` with its last lines."""
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    if result.returncode:
        tail = " | ".join((result.stdout + result.stderr).strip().splitlines()[-5:])
        raise Failure(f"{' '.join(map(str, command))[:120]}: exit code {result.returncode}: {tail}")
    return result.stdout + result.stderr


def build(output: Path) -> list[Path]:
    """Build the sdist and both wheels."""
    epoch = run(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    for directory, target in ((ROOT, []), (ROOT / "runtime", ["--target", "wheel"])):
        command = [sys.executable, "-m", "hatchling", "build", "--directory", output, *target]
        run(command, cwd=directory, env=environment)
    return sorted(path for path in output.iterdir() if path.suffix in (".whl", ".gz"))


def check_build(dist: Path, scratch: Path) -> str:
    """Build twice and compare."""
    shutil.rmtree(dist, ignore_errors=True)
    first, second = build(dist), build(scratch / "again")
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        for files in (first, second)
    ]
    if digests[0] != digests[1]:
        different = [name for name in digests[0] if digests[0][name] != digests[1].get(name)]
        raise Failure(f"two builds differ: {', '.join(different)}")
    (dist / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in digests[0].items()))
    return f"{len(first)} files, the same bytes twice"


def interpreters() -> dict[str, str]:
    """Return the supported versions of Python that are installed."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        candidates = [*sorted(pyenv.glob(f"{version}*/bin/python")), f"python{version}"]
        for candidate in candidates:
            try:
                found[version] = run([candidate, "-c", "import sys; print(sys.executable)"]).strip()
                break
            except (Failure, OSError):
                continue
    return found


def environment(scratch: Path, name: str, python: str) -> Path:
    """Return the directory of the executables of an empty environment."""
    directory = scratch / name
    if shutil.which("uv"):
        run(["uv", "venv", "--quiet", "--python", python, directory])
    else:
        run([python, "-m", "venv", directory])
    return directory / "bin"


def install(bin_directory: Path, *requirements: str | Path) -> None:
    """Install packages into an environment."""
    if shutil.which("uv"):
        run(["uv", "pip", "install", "--quiet", "--python", bin_directory / "python", *requirements])
    else:
        run([bin_directory / "python", "-m", "pip", "install", "--quiet", *requirements])


def check_pythons(dist: Path, scratch: Path) -> str:
    """Install the wheel with every Python."""
    (wheel,) = dist.glob("kubewright-*.whl")
    found = interpreters()
    if not found:
        raise Failure(f"none of Python {', '.join(PYTHONS)} is installed")
    for version, python in found.items():
        executables = environment(scratch, f"python{version}", python)
        install(executables, wheel)
        reported = run([executables / "kubewright", "--version"])
        if wheel.name.split("-")[1] not in reported:
            raise Failure(f"Python {version}: kubewright --version printed {reported.strip()}")
        run(
            [
                executables / "python",
                "-W",
                "error",
                "-c",
                "import kubewright.api, kubewright.testing, kubewright.cli",
            ]
        )
    missing = [version for version in PYTHONS if version not in found]
    return f"Python {', '.join(found)}" + (f"; not installed here: {', '.join(missing)}" if missing else "")


def check_quick_start(dist: Path, scratch: Path) -> str:
    """Run the commands of the README with the wheel."""
    (wheel,) = dist.glob("kubewright-*.whl")
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Quick start")[1].split("```")[1]
    commands = [line[2:].partition("#")[0].strip() for line in section.splitlines() if line.startswith("$ ")]
    executables = environment(scratch, "quick-start", sys.executable)
    install(executables, f"{wheel}[testing]")
    project = scratch / "shop"
    project.mkdir()
    path = {
        **os.environ,
        "PATH": f"{executables}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(executables.parent),
    }
    done = []
    for command in commands:
        if command.startswith(("pip install kubewright", "mkdir")):
            continue
        if command.startswith("pip install -e"):
            install(executables, "hatchling", "mypy", "ruff")
            continue
        if command == "kubewright run":
            break
        run(["sh", "-c", command], cwd=project, env=path)
        done.append(command.split()[0])
    return f"{len(done)} commands: {', '.join(dict.fromkeys(done))}"


def check_licenses(dist: Path, scratch: Path) -> str:
    """Write the SBOM of the installed distribution and check the licenses."""
    site = next((scratch / "quick-start").glob("lib/python*/site-packages"))
    components, unknown = [], []
    for path in sorted(site.glob("*.dist-info/METADATA")):
        data = HeaderParser().parsestr(path.read_text(encoding="utf-8", errors="replace"))
        classifiers = [
            each.rpartition("::")[2].strip()
            for each in data.get_all("Classifier", [])
            if each.startswith("License")
        ]
        text = (
            data.get("License-Expression")
            or "; ".join(classifiers)
            or (data.get("License") or "").splitlines()[0:1]
        )
        license_text = text if isinstance(text, str) else " ".join(text)
        name, version = data["Name"], data["Version"]
        if not ACCEPTED.search(license_text):
            unknown.append(f"{name} {version} ({license_text or 'no license'})")
        components.append(
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name.lower()}@{version}",
                "licenses": [{"license": {"name": license_text}}],
            }
        )
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}
    (dist / "sbom.cdx.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if unknown:
        raise Failure(f"licenses to review: {', '.join(unknown)}")
    return f"{len(components)} components in dist/sbom.cdx.json"


def check_imports(dist: Path, scratch: Path) -> str:
    """Run the test that compares imports with declared dependencies."""
    run(
        [sys.executable, "-m", "pytest", "-q", "tests/test_dependencies.py"],
        cwd=ROOT,
    )
    return "imports are declared"


def check_types(dist: Path, scratch: Path) -> str:
    """Verify the types of the public names with pyright."""
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if pyright is None:
        raise Failure("pyright is not installed; pip install pyright")
    executables = scratch / "quick-start" / "bin"
    path = {"PATH": f"{executables}:{os.environ['PATH']}", "VIRTUAL_ENV": str(executables.parent)}
    command = [pyright, "--verifytypes", "kubewright", "--ignoreexternal", "--outputjson"]
    result = subprocess.run(
        command, cwd=scratch, env={**os.environ, **path}, capture_output=True, text=True, check=False
    )
    report = json.loads(result.stdout)["typeCompleteness"]
    score = round(report["completenessScore"] * 100, 2)
    counts = report["exportedSymbolCounts"]
    if score < MINIMUM_TYPED:
        raise Failure(f"{score} % of the public symbols are typed; at least {MINIMUM_TYPED} % are required")
    return f"{score} % of {sum(counts.values())} public symbols"


def check_surface(dist: Path, scratch: Path) -> str:
    """Compare the recorded surface, and look for the version in the changelog."""
    run([sys.executable, ROOT / "tools/public_surface.py", "--check"])
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/kubewright/__init__.py").read_text())
    assert version is not None
    if f"[{version[1]}]" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise Failure(f"CHANGELOG.md has no section [{version[1]}]")
    return version[1]


CHECKS: dict[str, Callable[[Path, Path], str]] = {
    "build": check_build,
    "pythons": check_pythons,
    "quick-start": check_quick_start,
    "licenses": check_licenses,
    "imports": check_imports,
    "types": check_types,
    "surface": check_surface,
}


def main() -> int:
    """Run all checks, or those that are named."""
    wanted = sys.argv[1:] or list(CHECKS)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kubewright-release-") as directory:
        for name in wanted:
            try:
                print(f"{name:12} ok      {CHECKS[name](ROOT / 'dist', Path(directory))}", flush=True)
            except (Failure, StopIteration) as error:
                failed += 1
                print(f"{name:12} FAILED  {error}", flush=True)
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
