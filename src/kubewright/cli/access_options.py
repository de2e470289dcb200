"""The options of `kubewright up` for authentication and authorization, with the names of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

_FILE = click.Path(dir_okay=False, path_type=Path)


def split_list(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a repeated option whose values are separated by commas."""
    return tuple(word.strip() for text in value for word in text.split(",") if word.strip())


_OPTIONS: Final = (
    click.option(
        "--auth",
        default="rbac",
        show_default=True,
        metavar="A,B",
        help="Authorization modes in order: node, rbac, webhook, always-allow, always-deny.",
    ),
    click.option(
        "--authorization-config",
        type=_FILE,
        help="AuthorizationConfiguration file: authorizers with webhooks; replaces --auth.",
    ),
    click.option(
        "--authorization-webhook-config-file",
        type=_FILE,
        help="Kubeconfig with the URL of the authorization webhook, for --auth webhook.",
    ),
    click.option(
        "--authentication-config",
        type=_FILE,
        help="AuthenticationConfiguration file: JSON web tokens of other issuers, and anonymous requests.",
    ),
    click.option(
        "--authentication-token-webhook-config-file",
        type=_FILE,
        help="Kubeconfig with the URL of a webhook that authenticates tokens.",
    ),
    click.option("--token-auth-file", type=_FILE, help='File with lines token,user,uid,"group1,group2".'),
    click.option("--client-ca-file", type=_FILE, help="CA bundle (PEM) for client certificates."),
    click.option(
        "--anonymous-auth/--no-anonymous-auth",
        default=True,
        help="Whether to allow anonymous requests (system:anonymous).",
    ),
    click.option(
        "--requestheader-client-ca-file",
        type=_FILE,
        help="CA bundle (PEM) for client certificates of front proxies.",
    ),
    click.option(
        "--requestheader-allowed-names",
        multiple=True,
        callback=split_list,
        metavar="A,B",
        help="Common names of front proxy certificates.  [default: all]",
    ),
    click.option(
        "--requestheader-username-headers",
        multiple=True,
        callback=split_list,
        metavar="A,B",
        help="Headers of front proxies with the user name.",
    ),
    click.option(
        "--requestheader-uid-headers",
        multiple=True,
        callback=split_list,
        metavar="A,B",
        help="Headers of front proxies with the user ID.",
    ),
    click.option(
        "--requestheader-group-headers",
        multiple=True,
        callback=split_list,
        metavar="A,B",
        help="Headers of front proxies with the groups.",
    ),
    click.option(
        "--requestheader-extra-headers-prefix",
        multiple=True,
        callback=split_list,
        metavar="A,B",
        help="Prefixes of headers of front proxies with extra user fields.",
    ),
    click.option("--service-account-issuer", default="", help="Issuer of service account tokens."),
    click.option(
        "--service-account-key-file",
        type=_FILE,
        multiple=True,
        help="Key file (PEM) to verify service account tokens; can be repeated.",
    ),
    click.option(
        "--service-account-signing-key-file",
        type=_FILE,
        help="Key file (PEM) to sign service account tokens.",
    ),
    click.option(
        "--api-audiences",
        multiple=True,
        callback=split_list,
        metavar="A,B",
        help="Audiences of service account tokens.  [default: the issuer]",
    ),
)

ACCESS_SETTINGS: Final = (
    "auth",
    "authorization_config",
    "authorization_webhook_config_file",
    "authentication_config",
    "authentication_token_webhook_config_file",
    "token_auth_file",
    "client_ca_file",
    "service_account_issuer",
    "service_account_signing_key_file",
    "api_audiences",
)
"""Options that are parameters of `ControlPlane`."""


def add_access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_front_proxy(options: dict[str, Any]) -> Any:
    """Return the `FrontProxy` of the given options, or `None`."""
    path = options["requestheader_client_ca_file"]
    if path is None:
        return None
    from kubewright.controlplane.credentials import read_certificates
    from kubewright.controlplane.plane_options import FrontProxy

    given = {
        "allowed_names": options["requestheader_allowed_names"],
        "username_headers": options["requestheader_username_headers"],
        "uid_headers": options["requestheader_uid_headers"],
        "group_headers": options["requestheader_group_headers"],
        "extra_prefixes": options["requestheader_extra_headers_prefix"],
    }
    return FrontProxy(
        client_ca=read_certificates(path), **{name: value for name, value in given.items() if value}
    )
