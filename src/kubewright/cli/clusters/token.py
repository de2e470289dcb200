"""`kubewright token`: bootstrap tokens, with which machines join a cluster."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from kubewright.cli.kubeconfig_options import kubeconfig_options
from kubewright.cli.project_deployment import run_on_cluster

if TYPE_CHECKING:
    from kubewright.api.core.v1 import Secret
    from kubewright.client import Client

DEFAULT_TTL = "24h"
SIGNATURE_TIMEOUT = 30.0
"""Seconds until the bootstrap signer has signed for a new token."""


@click.group("token")
def token_command() -> None:
    """Manage bootstrap tokens, with which machines join a cluster.

    \b
    Example:
      kubewright up --real-nodes --store sqlite:cluster.db
      kubewright token create --print-join-command
    """


@token_command.command("create")
@click.option("--ttl", default=DEFAULT_TTL, show_default=True, help="Lifetime, as in 2h; 0 for no limit.")
@click.option("--description", default="", help="For whom the token is.")
@click.option("--print-join-command", is_flag=True, help="Print the kubeadm command instead of the token.")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format.")
@kubeconfig_options
def create(
    ttl: str,
    description: str,
    print_join_command: bool,
    output: str,
    kubeconfig: str | None,
    context: str,
) -> None:
    """Create a token, and print it or the command with which a machine joins."""
    from kubewright.api.values.times import now
    from kubewright.options.kinds import parse_seconds
    from kubewright.workloads.bootstrap_token import BootstrapToken

    try:
        seconds = parse_seconds(ttl)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--ttl'") from None
    token = BootstrapToken.generate()

    async def run(client: Client) -> None:
        expiration = now() + timedelta(seconds=seconds) if seconds else None
        await client.create(token.to_secret(description=description, expiration=expiration))
        result = {"token": str(token)}
        if print_join_command:
            result["joinCommand"] = await _join_command(client, token)
        if output == "json":
            click.echo(json.dumps(result))
        else:
            click.echo(result.get("joinCommand", result["token"]))

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)


@token_command.command("list")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", help="Format.")
@kubeconfig_options
def list_tokens(output: str, kubeconfig: str | None, context: str) -> None:
    """List tokens, without their secrets."""

    async def run(client: Client) -> None:
        rows = [_describe(secret) for secret in await _secrets(client)]
        if output == "json":
            click.echo(json.dumps(rows))
            return
        widths = {key: max(len(key), *(len(row[key]) for row in rows)) for key in _COLUMNS} if rows else {}
        for row in [{key: key.upper() for key in _COLUMNS}, *rows] if rows else ():
            click.echo("  ".join(row[key].ljust(widths[key]) for key in _COLUMNS).rstrip())

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)


@token_command.command("delete")
@click.argument("token_ids", metavar="ID...", nargs=-1, required=True)
@kubeconfig_options
def delete(token_ids: tuple[str, ...], kubeconfig: str | None, context: str) -> None:
    """Delete tokens by identifier, the part before the dot."""
    from kubewright.api.core.v1 import Secret
    from kubewright.workloads.bootstrap_token import NAME_PREFIX, NAMESPACE

    async def run(client: Client) -> None:
        for each in token_ids:
            name = f"{NAME_PREFIX}{each.partition('.')[0]}"
            await client.delete(Secret, name=name, namespace=NAMESPACE)
            click.echo(f"deleted token {each.partition('.')[0]}")

    run_on_cluster(run, kubeconfig=kubeconfig, context=context)


_COLUMNS = ("id", "expires", "usages", "groups", "description")


def _describe(secret: Secret) -> dict[str, str]:
    from kubewright.workloads.bootstrap_token import token_value

    prefix = "usage-bootstrap-"
    usages = [key.removeprefix(prefix) for key in secret.data or {} if key.startswith(prefix)]
    return {
        "id": token_value(secret, "token-id"),
        "expires": token_value(secret, "expiration") or "never",
        "usages": ",".join(sorted(each for each in usages if token_value(secret, prefix + each) == "true")),
        "groups": token_value(secret, "auth-extra-groups"),
        "description": token_value(secret, "description"),
    }


async def _secrets(client: Client) -> list[Secret]:
    from kubewright.api.core.v1 import Secret
    from kubewright.workloads.bootstrap_token import NAMESPACE, SECRET_TYPE

    found = await client.list(Secret, namespace=NAMESPACE, fields={"type": SECRET_TYPE})
    return sorted(found, key=lambda secret: secret.name)


async def _join_command(client: Client, token: Any) -> str:
    """Return the command of kubeadm, once the server has signed the discovery document for the token."""
    import yaml

    from kubewright.api.core.v1 import ConfigMap

    try:
        async with asyncio.timeout(SIGNATURE_TIMEOUT):
            while True:
                info = await client.get_or_none(ConfigMap, "cluster-info", namespace="kube-public")
                if info is None:
                    raise click.ClickException(
                        "the cluster has no config map kube-public/cluster-info; "
                        "start it with: kubewright up --real-nodes"
                    )
                data = info.data or {}
                if f"jws-kubeconfig-{token.id}" in data:
                    break
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise click.ClickException(
            "the token was not signed; is the bootstrap-signer-controller disabled?"
        ) from None
    cluster = yaml.safe_load(data["kubeconfig"])["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"])
    server = cluster["server"].removeprefix("https://")
    return f"kubeadm join {server} --token {token} --discovery-token-ca-cert-hash {key_hash(authority)}"


def key_hash(certificate: bytes) -> str:
    """Return the hash of the public key of a certificate (PEM) that kubeadm compares."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = x509.load_pem_x509_certificate(certificate).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"
