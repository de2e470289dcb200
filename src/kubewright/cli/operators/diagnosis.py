"""`Diagnosis`: what a bug report about an operator needs, as redacted files of one archive.

    diagnosis = Diagnosis(Redactor())
    diagnosis.add_environment()
    await diagnosis.add_cluster(client, namespace="shop-system")
    diagnosis.write(Path("diagnosis.tar.gz"))

| file | content |
|---|---|
| `versions.json` | Kubewright, Python, the platform, dependencies, the cluster |
| `settings.json` | `[tool.kubewright]` of the project |
| `objects/<kind>.json` | objects in the namespace of the operator, its CRDs and webhook configurations |
| `secrets.json` | names, types and keys of Secrets, never their values |
| `logs/<pod>-<container>.log` | the last lines, also those before a restart |
| `errors.txt` | what could not be read, with the reason |

Every text passes the `Redactor`. A part that cannot be read does not prevent the others.
"""

from __future__ import annotations

import io
import json
import platform
import re
import sys
import tarfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kubewright.api.encoding.codec import to_plain
from kubewright.api.errors import APIError
from kubewright.client.errors import ConnectionFailed, NoKindMatch
from kubewright.recording.redaction import Redactor

if TYPE_CHECKING:
    from kubewright.client import Client

NAMESPACED: Final = (
    *("deployments.apps", "replicasets.apps", "pods", "services", "endpointslices.discovery.k8s.io"),
    *("leases.coordination.k8s.io", "serviceaccounts", "roles.rbac.authorization.k8s.io"),
    *("rolebindings.rbac.authorization.k8s.io", "networkpolicies.networking.k8s.io", "events"),
)
CLUSTER_WIDE: Final = (
    "customresourcedefinitions.apiextensions.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)
_MAX_OBJECTS: Final = 500
"""Objects of one kind; more are left out, and `errors.txt` says so."""
_Unreadable = (APIError, ConnectionFailed, NoKindMatch, OSError, TimeoutError)


class Diagnosis:
    """Collects files, and what could not be collected."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.files: dict[str, str] = {}
        self.errors: list[str] = []

    def add_environment(self) -> None:
        """Add the versions of this program and of what it uses."""
        from kubewright import __version__

        packages = {
            name: metadata.version(name)
            for requirement in metadata.requires("kubewright") or ()
            if (name := re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]) and _is_installed(name)
        }
        versions = {
            "kubewright": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            "packages": dict(sorted(packages.items())),
        }
        self.files["versions.json"] = _json(versions)

    def add_settings(self, settings: dict[str, Any]) -> None:
        """Add the settings of the project."""
        self.files["settings.json"] = _json(self._redactor.redact(settings))

    async def add_cluster(
        self, client: Client, *, namespace: str, group: str = "", lines: int = 2000
    ) -> None:
        """Add objects and logs of the operator in a namespace, and the CRDs of a domain."""
        for kind in NAMESPACED:
            await self._add_objects(client, kind, namespace=namespace)
        for kind in CLUSTER_WIDE:
            await self._add_objects(client, kind, names=group or namespace.removesuffix("-system"))
        await self._add_secrets(client, namespace)
        await self._add_pods(client, namespace, lines)

    async def _add_objects(
        self, client: Client, kind: str, *, namespace: str | None = None, names: str = ""
    ) -> None:
        found: list[dict[str, Any]] = []
        try:
            async for each in client.list(kind, namespace=namespace):
                if names in str(each.metadata.name):
                    found.append(self._redactor.redact(to_plain(each)))
                if len(found) == _MAX_OBJECTS:
                    self.errors.append(f"{kind}: more than {_MAX_OBJECTS} objects; the others are left out")
                    break
        except _Unreadable as error:
            self._add_error(kind, error)
        if found:
            self.files[f"objects/{kind}.json"] = _json(found)

    async def _add_secrets(self, client: Client, namespace: str) -> None:
        from kubewright.api.core.v1 import Secret

        try:
            listed = [
                {"name": each.metadata.name, "type": each.type, "keys": sorted(each.data or ())}
                async for each in client.list(Secret, namespace=namespace)
            ]
        except _Unreadable as error:
            self._add_error("secrets", error)
        else:
            self.files["secrets.json"] = _json(listed)

    async def _add_pods(self, client: Client, namespace: str, lines: int) -> None:
        from kubewright.api.core.v1 import Pod

        try:
            pods = [each async for each in client.list(Pod, namespace=namespace)]
        except _Unreadable as error:
            self._add_error("pods", error)
            return
        for pod in pods:
            restarted = {
                each.name
                for each in (pod.status and pod.status.container_statuses) or ()
                if each.restart_count
            }
            for container in (pod.spec and pod.spec.containers) or ():
                for previous in (False, True) if container.name in restarted else (False,):
                    name = f"logs/{pod.name}-{container.name}{'-previous' if previous else ''}.log"
                    try:
                        text = await client.log(
                            pod, container=container.name or "", tail=lines, previous=previous
                        )
                        self.files[name] = self._redactor.text(text)
                    except _Unreadable as error:
                        self._add_error(name, error)

    def _add_error(self, what: str, error: BaseException) -> None:
        self.errors.append(self._redactor.text(f"{what}: {error}"))

    def write(self, path: Path) -> None:
        """Write all files into an archive that only this user can read."""
        files = {**self.files, "errors.txt": "".join(f"{each}\n" for each in self.errors)}
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            for name, text in sorted(files.items()):
                data = text.encode(errors="replace")
                entry = tarfile.TarInfo(f"{path.name.partition('.')[0]}/{name}")
                entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(data))
        path.touch(mode=0o600)
        path.write_bytes(content.getvalue())


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _json(value: dict[str, Any] | Iterable[Any]) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"
