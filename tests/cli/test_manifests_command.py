from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "types"


def run(*arguments: str, cwd: Path = EXAMPLES) -> subprocess.CompletedProcess[str]:
    program = "from kubewright.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "manifests", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_printing(tmp_path: Path) -> None:
    done = run("guestbook", "--output", "-")
    assert done.returncode == 0
    assert done.stdout == (EXAMPLES / "golden" / "guestbook.yaml").read_text()
    assert done.stderr == ""


def test_writing_then_checking_then_a_stale_file(tmp_path: Path) -> None:
    out = str(tmp_path / "config")
    written = run("cronjob", "-o", out)
    assert written.returncode == 0
    assert written.stderr.count("wrote ") == 3
    checked = run("cronjob", "-o", out, "--check")
    assert checked.returncode == 0
    assert "up to date" in checked.stderr
    role = tmp_path / "config" / "rbac" / "role.yaml"
    role.write_text(role.read_text().replace("- delete\n", ""))
    stale = run("cronjob", "-o", out, "--check")
    assert stale.returncode == 1
    assert "+  - delete" in stale.stdout
    assert "outdated" in stale.stderr
    assert "- delete\n" not in role.read_text()


def test_settings_come_from_pyproject(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "thing.py").write_text((EXAMPLES / "guestbook.py").read_text())
    (tmp_path / "pyproject.toml").write_text(
        '[tool.kubewright]\nmodules = ["thing"]\n'
        '[tool.kubewright.manifests]\noutput = "out"\nmax-description = 0\n'
    )
    done = run(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "crd" / "webapp.my.domain_guestbooks.yaml").read_text()
    assert "description" not in text
    assert "wrote out/crd/webapp.my.domain_guestbooks.yaml" in done.stderr
    printed = run("-o", "-", "--max-description", "5", cwd=tmp_path)
    assert "description" in printed.stdout


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("[tool.kubewright.manifests]\ncolour = 1\n", "no setting 'colour'"),
        ('[tool.kubewright.manifests]\nmax-description = "1"\n', "must be of type int"),
        ("[tool", "pyproject.toml"),
        ("", "no modules"),
    ],
)
def test_invalid_settings_are_one_line(tmp_path: Path, settings: str, words: str) -> None:
    (tmp_path / "pyproject.toml").write_text(settings)
    done = run(cwd=tmp_path)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_errors_name_file_and_line_and_write_nothing(tmp_path: Path) -> None:
    text = (
        (EXAMPLES / "guestbook.py").read_text().replace("Le(10)", "MaxLen(10)").replace('".spec.size"', '"x"')
    )
    (tmp_path / "thing.py").write_text(text)
    done = run("thing", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    size, column, summary = done.stderr.splitlines()
    assert size.startswith("thing.py:")
    assert "Guestbook.spec.size: MaxLen is applied to an integer; write Le" in size
    assert column.startswith("thing.py:")
    assert summary == "Error: 2 errors; nothing was written"
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere_at_all",), "no module named nowhere_at_all"),
        (("json", "-o", "-"), "no declarations found in json"),
        (("guestbook", "-o", "-", "--check"), "requires a directory"),
        (("guestbook", "-o", "/dev/null/x"), "cannot write"),
        (("guestbook", "--max-description", "-1"), "max-description"),
    ],
)
def test_other_errors_are_short(arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_header_is_written_to_every_file(tmp_path: Path) -> None:
    (tmp_path / "licence.txt").write_text("Copyright us\n\nAll rights\n")
    done = run("guestbook", "-o", "-", "--header", str(tmp_path / "licence.txt"))
    assert done.stdout.startswith("# Copyright us\n#\n# All rights\n---\napiVersion:")
    missing = run("guestbook", "-o", "-", "--header", str(tmp_path / "nowhere"))
    assert missing.returncode == 1
    assert "cannot read header file" in missing.stderr


def test_a_type_that_is_nested_too_deeply_is_one_error(tmp_path: Path) -> None:
    text = (EXAMPLES / "guestbook.py").read_text()
    nested = "Deep = str\nfor _ in range(3000):\n    Deep = list[Deep]\n"
    text = text.replace("\nclass ", "\n" + nested + "\n\nclass ", 1)
    text = text.replace("size: Annotated", "deep: Deep\n    size: Annotated", 1)
    assert "deep: Deep" in text
    (tmp_path / "deep.py").write_text(text)
    done = run("deep", "-o", "-", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ") or "error" in done.stderr
