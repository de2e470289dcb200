"""The configuration files of a control plane that are loaded again when they change.

As in kube-apiserver, authentication and authorization configurations always are, an encryption configuration
if that is requested.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.controlplane.access import read_authorization_settings
from kubewright.controlplane.replicas.identity_lease import server_identity

from .config_file import naming_file
from .config_reload import Close, ConfigReloader, ReloadMetrics

if TYPE_CHECKING:
    from kubewright.controlplane.plane import ControlPlane

ENCRYPTION_CHECK = "poststarthook/start-encryption-provider-config-automatic-reload"
"""Health check of kube-apiserver that the reload of the encryption configuration has started."""


def config_reloaders(plane: ControlPlane) -> dict[str, ConfigReloader]:
    """Return the reloaders of a control plane, by configuration; their metrics are registered."""

    async def reload_encryption() -> Close:
        from kubewright.controlplane.encryption import EncryptedStorage

        assert isinstance(plane.storage, EncryptedStorage)
        return await plane.storage.reload(_file(plane, "encryption"))

    async def reload_authentication() -> None:
        path = _file(plane, "authentication")
        authentication = plane.authentication
        authentication.use_external_tokens(
            await authentication.external_tokens.reload(path, plane.service_account_issuers)
        )

    async def reload_authorization() -> Close:
        path = _file(plane, "authorization")
        settings = read_authorization_settings((), path)
        with naming_file(path):
            plane.authorization.settings.check_reload(settings)
        previous = plane.authorization.settings
        plane.authorization.use(settings)
        return previous.close

    reloads = {
        "encryption": reload_encryption,
        "authentication": reload_authentication,
        "authorization": reload_authorization,
    }
    found = {}
    for name, apply in reloads.items():
        if plane.reloaded_files[name] is not None:
            metrics = ReloadMetrics(name, server_identity(plane.port))
            plane.server.metrics.registry.register(metrics)
            found[name] = ConfigReloader(_file(plane, name), apply, metrics)
    if "encryption" in found:
        from kubewright.controlplane.encryption import EncryptedStorage

        plane.server.health.add(ENCRYPTION_CHECK, lambda: None)
        assert isinstance(plane.storage, EncryptedStorage)
        plane.storage.load_changes = found["encryption"].check
    return found


def _file(plane: ControlPlane, name: str) -> Path:
    path = plane.reloaded_files[name]
    assert path is not None
    return Path(path)
