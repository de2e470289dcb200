"""Scripts of simulated containers: what is followed, and what is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workloads.nodes.simulated_cluster import start_cluster

from kubewright.workloads.nodes.containers.shell_syntax import SimpleCommand, UnsupportedSyntax, parse_script


def parse(script: str) -> list[SimpleCommand]:
    return parse_script(script, {"HOME": "/root", "A": "x y"}.get)  # type: ignore[arg-type]


def words(script: str) -> list[list[str]]:
    return [command.words for command in parse(script)]


def test_words_and_operators() -> None:
    assert words("echo a; echo 'b;c' && echo \"d | e\" || echo f\\;g # comment") == [
        ["echo", "a"],
        ["echo", "b;c"],
        ["echo", "d | e"],
        ["echo", "f;g"],
    ]
    assert [command.operator for command in parse("a; b && c || d\ne &&\nf")] == [
        ";", ";", "&&", "||", ";", "&&",
    ]  # fmt: skip
    (command,) = parse("echo a >> '/tmp/x y'")
    assert (command.words, command.target, command.append) == (["echo", "a"], "/tmp/x y", True)


def test_variables() -> None:
    assert words("echo $HOME/x \"${A}\" '$A' 5$ \\$A") == [["echo", "/root/x", "x y", "$A", "5$", "$A"]]


@pytest.mark.parametrize(
    "script",
    [
        "echo a | wc -c",
        "sleep 1 & echo a",
        "cat < /tmp/x",
        "echo $(hostname)",
        "echo `hostname`",
        'echo "$(hostname)"',
        "(echo a)",
        "ls /tmp/*",
        "cat /missing 2>/dev/null",
        "echo a >&2",
        "if true; then echo a; fi",
        "for i in 1 2; do echo $i; done",
        "A=1 env",
        "echo ${A:-b}",
        "echo $?",
        "! true",
        "echo 'a",
        'echo "a',
        "echo a >",
        "&& echo a",
        "echo a &&",
    ],
)
def test_other_syntax_is_an_error(script: str) -> None:
    with pytest.raises(UnsupportedSyntax):
        parse(script)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1))
def test_quoted_words_are_literal(given: list[str]) -> None:
    import shlex

    assert words(shlex.join(["echo", *given])) == [["echo", *given]]


async def test_a_script_that_is_not_followed_fails() -> None:
    async with start_cluster() as cluster:
        await cluster.create_pod("web")
        await cluster.wait_ready("web")
        result = await cluster.client.exec("web", ["sh", "-c", "echo a | wc -c"])
        assert (result.stdout, result.exit_code) == (b"", 2)
        assert result.stderr.startswith(b'sh: "|" is not simulated; ')
        result = await cluster.client.exec("web", ["sh", "-c", "echo a; exit 3; echo b"])
        assert (result.stdout, result.exit_code) == (b"a\n", 3)
