"""Write `SyncClient` and `SyncSubresourceClient` from the methods of `Client` and `SubresourceClient`.

python tools/generate_sync_client.py           # writes src/kubewright/client/sync/sync_client.py
python tools/generate_sync_client.py --check   # exits with 1 if the module is not up to date

Each public method becomes one with the same overloads, parameters and annotations that runs it in the thread
of the event loop. What a method returns decides how: a coroutine is awaited, a client is wrapped, and so on
(`RESULTS`). Methods with another form are in `client/sync/base.py`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "kubewright" / "client"
MODULE = CLIENT / "sync" / "sync_client.py"

RESULTS = {
    "ListPager": ("ListResult", "self.run(as_coroutine({call}))"),
    "Watch": ("SyncWatch", "SyncWatch({call}, self._thread)"),
    "PodLog": ("SyncPodLog", "SyncPodLog({call}, self._thread)"),
    "ExecCommand": ("SyncExecCommand", "SyncExecCommand({call}, self._thread)"),
    "PortForward": ("SyncPortForward", "SyncPortForward({call}, self._thread)"),
    "SubresourceClient": ("SyncSubresourceClient", "SyncSubresourceClient({call}, self._thread)"),
    "Self": ("Self", "self._derive({call})"),
}
"""The annotation of what a method returns: that of the blocking method, and its expression."""

SKIPPED = {
    *("connect", "from_transport", "aclose", "list_raw", "watch_raw", "open_channels", "locate"),
    "exec",  # has two forms, in the base class
}

DOCUMENTATION = {
    "list": "Return all objects of a kind that match; `iterate` holds one page at a time. See `Client.list`.",
    "watch": 'Watch objects of a kind: `for event in client.watch(Pod, namespace="shop")`.',
    "log": "Read the log of a container: iterate the result for lines, or `read()` it.",
    "attach": "Attach to the main process of a container: `with client.attach(pod) as process`.",
    "port_forward": "Forward connections to a local port to a port of a pod, within `with`.",
    "create_or_update": "As `Client.create_or_update`; `mutate` runs in another thread.",
    "with_interceptor": "Derive a client that calls an async `interceptor` around each request.",
}

HEADER = '''\
"""`SyncClient`: the verbs of `Client` for programs without an event loop.

    with SyncClient.connect() as client:
        web = client.get(Deployment, "web")
        pods = client.list(Pod, labels="app=web")         # a list: len(pods), pods[0]
        for event in client.watch(Pod): ...
        with client.port_forward("web-0", 8080) as forward: ...

Each verb runs the verb of `Client` with the same name and arguments in a background thread and waits for it.
Written by `tools/generate_sync_client.py`; do not edit.
"""

from __future__ import annotations

import builtins
'''

OWN_IMPORTS = """\
from kubewright.client.listwatch.pager import ListResult
from .base import BlockingSubresource, BlockingVerbs
from .streams import SyncExecCommand, SyncPodLog, SyncPortForward, SyncWatch, as_coroutine
"""

Method = ast.FunctionDef | ast.AsyncFunctionDef


def read(path: Path) -> ast.Module:
    """Parse a module of the client."""
    return ast.parse(path.read_text())


def imports_of(tree: ast.Module, package: str) -> Iterator[ast.stmt]:
    """Yield the imports of a module with absolute names, those for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            if node.level:
                parts = package.split(".")
                base = parts[: len(parts) - node.level + 1]
                node = ast.ImportFrom(".".join([*base, node.module or ""]), node.names, 0)
            yield node
        elif isinstance(node, ast.Import):
            yield node


def methods_of(tree: ast.Module, name: str) -> Iterator[Method]:
    """Yield the public methods of a class, each overload too."""
    (found,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    for each in found.body:
        if isinstance(each, Method) and not each.name.startswith("_") and each.name not in SKIPPED:
            yield each


class Annotations(ast.NodeTransformer):
    """Replaces the type that a method returns, and `list`, which is a method here."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name."""
        if node.id == "list":
            return ast.Attribute(ast.Name("builtins"), "list")
        return ast.Name(RESULTS[node.id][0]) if node.id in RESULTS else node


def blocking(method: Method, receiver: str) -> ast.FunctionDef:
    """Return the blocking form of a method."""
    arguments, returns = method.args, method.returns
    assert returns is not None
    result = returns.value if isinstance(returns, ast.Subscript) else returns
    if isinstance(method, ast.AsyncFunctionDef):
        form = "self.run({call})"
    else:
        assert isinstance(result, ast.Name), f"{method.name} returns {ast.unparse(returns)}"
        form = RESULTS[result.id][1]
    is_overload = any(ast.unparse(each) == "overload" for each in method.decorator_list)
    body: list[ast.stmt] = [ast.Expr(ast.Constant(...))]
    if not is_overload:
        given = [each.arg for each in arguments.args[1:]]
        given += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
        call = form.format(call=f"{receiver}.{method.name}({', '.join(given)})")
        documentation = ast.get_docstring(method) or ""
        first = documentation.partition("\n\n")[0]
        if first != documentation and method.name not in DOCUMENTATION:
            first = f"{first}\n\n        See `Client.{method.name}`.\n        "
        text = DOCUMENTATION.get(method.name, first)
        statement = call if ast.unparse(returns) == "None" else f"return {call}"
        body = [ast.Expr(ast.Constant(text)), *ast.parse(statement).body]
    transformed: ast.expr = Annotations().visit(returns)
    for each in (*arguments.args, *arguments.kwonlyargs):
        if each.annotation is not None:
            each.annotation = Annotations().visit(each.annotation)
    return ast.FunctionDef(method.name, arguments, body, method.decorator_list, transformed, lineno=0)


def module() -> str:
    """Return the text of the module."""
    imports: list[ast.stmt] = []

    def class_of(name: str, base: str, receiver: str, documentation: str, *sources: tuple[str, str]) -> str:
        body: list[ast.stmt] = [ast.Expr(ast.Constant(documentation))]
        for path, source in sources:
            tree = read(CLIENT / path)
            package = ".".join(["kubewright.client", *Path(path).parts[:-1]])
            imports.extend(imports_of(tree, package))
            for each in tree.body:  # types and constants of the module that its annotations use
                targets = each.targets if isinstance(each, ast.Assign) else []
                names = [each.id for each in targets if isinstance(each, ast.Name) and each.id[0] != "_"]
                if names:
                    aliases = [ast.alias(each) for each in names]
                    imports.append(ast.ImportFrom(f"{package}.{Path(path).stem}", aliases, 0))
            body += [blocking(each, receiver) for each in methods_of(tree, source)]
        found = ast.ClassDef(name, [ast.Name(base)], [], body, [])
        return ast.unparse(ast.fix_missing_locations(found))

    classes = [
        class_of(
            "SyncSubresourceClient",
            "BlockingSubresource",
            "self._client",
            "Verbs on one subresource of one object. `as_` is the class that a response is decoded as.",
            ("verbs/subresource.py", "SubresourceClient"),
        ),
        class_of(
            "SyncClient",
            "BlockingVerbs",
            "self.async_client",
            "A synchronous client of one API server. Close it, or use it in `with`.",
            ("verbs/read.py", "ReadVerbs"),
            ("verbs/write.py", "WriteVerbs"),
            ("verbs/pods.py", "PodVerbs"),
            ("client.py", "Client"),
        ),
    ]
    statements = [ast.unparse(each) for each in imports]
    return formatted("\n".join([HEADER, *statements, OWN_IMPORTS, *classes]))


def formatted(text: str) -> str:
    """Return a module without unused imports, as ruff formats it."""
    name = ["--stdin-filename", str(MODULE), "-"]
    for command in (
        ["check", "--quiet", "--fix-only", "--select", "F401,F811,I,TC,RUF100,UP", "--unsafe-fixes", *name],
        ["format", "--quiet", *name],
    ):
        ruff = [sys.executable, "-m", "ruff", *command]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> int:
    """Write or check the module."""
    text = module()
    if "--check" in sys.argv:
        current = MODULE.read_text() == text
        if not current:
            print("sync_client.py is not up to date; run python tools/generate_sync_client.py")
        return int(not current)
    MODULE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
