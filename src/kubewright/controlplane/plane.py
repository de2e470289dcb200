"""`ControlPlane`: storage, API server, authentication, authorization, admission and controllers together.

    async with ControlPlane(store="sqlite:state.db", kubeconfig="kubeconfig") as plane:
        await plane.stopped()

Start order: open the storage, load or create credentials, set up authentication and admission, serve custom
resources, listen, write bootstrap objects, start the controllers. With `port=None` nothing listens;
requests are passed to `plane.server.handle`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from kubewright.apiserver.authentication.tokens import StaticTokenAuthenticator
from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS, User
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.apiserver.server import APIServer
from kubewright.apiserver.work_estimate import WorkEstimator
from kubewright.storage import Storage, open_storage
from kubewright.trusted_files import read_named_file

from . import readiness
from .access import (
    AccessReviews,
    Authorization,
    ClaimStatusCheck,
    EscalationCheck,
    read_authorization_settings,
)
from .admission import check_names
from .bootstrap import bootstrap
from .builtins import builtin_resources
from .cluster_controllers import ClusterControllers
from .controller_names import check_controller_names
from .credentials import read_certificates, read_key_pair
from .feature_gates import DEFAULT_GATES, apply_gates
from .flow_classifier import FlowClassifier
from .flow_metrics import FlowMetrics
from .identity import TokenIssuer, TokenRequests
from .identity.authentication import Authentication, AuthenticationSettings
from .identity.external_tokens import read_external_tokens
from .identity_lease import IdentityLease
from .informers import Informers
from .plane_credentials import PlaneCredentials, SuppliedCredentials, load_plane_credentials
from .plane_options import FrontProxy, check_node_options, parse_port_range, parse_service_ranges
from .readiness import Readiness
from .resource_settings import add_metrics_api, set_event_ttl, set_node_ports
from .serving_certificate import serving_hosts
from .webhooks import ServiceResolver, WebhookClient

if TYPE_CHECKING:
    from kubewright.apiserver.audit import AuditOptions
    from kubewright.apiserver.http.server import HTTPServer
    from kubewright.client import Client
    from kubewright.tls.certificates import CertificateAuthority
    from kubewright.workloads.workloads import Workloads

    from .config_reload import ConfigReloader
    from .jwt_authentication import OIDCOptions


class ControlPlane:
    """A Kubernetes control plane in this process. Use it with `async with`, or `start()` and `stop()`."""

    def __init__(
        self,
        *,
        store: str | Storage = "memory:",
        auth: str | Iterable[str] = "rbac",
        controllers: bool = True,
        nodes: int | str | Path = 0,
        run_processes: bool = False,
        kubelet_directory: str | Path | None = None,
        disable_controllers: Iterable[str] = (),
        load_balancer_range: str = "203.0.113.0/24",
        lease_duration: float = 15.0,
        disable_admission_plugins: Iterable[str] = (),
        enable_admission_plugins: Iterable[str] = (),
        bind: str = "127.0.0.1",
        port: int | None = 0,
        http2: bool = False,
        kubeconfig: str | Path | None = None,
        hosts: Sequence[str] = (),
        cert_dir: str | Path | None = None,
        tls_key_pair: tuple[str | Path, str | Path] | None = None,
        proxy_client_key_pair: tuple[str | Path, str | Path] | None = None,
        kubelet_client_key_pair: tuple[str | Path, str | Path] | None = None,
        kubelet_preferred_address_types: Sequence[str] = (),
        tls_min_version: Literal["1.2", "1.3"] = "1.2",
        tls_cipher_suites: Sequence[str] = (),
        advertise_address: str = "",
        runtime_config: Mapping[str, bool] | None = None,
        token_auth_file: str | Path | None = None,
        bootstrap_token_auth: bool = False,
        client_ca_file: str | Path | None = None,
        front_proxy: FrontProxy | None = None,
        anonymous: bool = True,
        service_cluster_ip_range: str = "10.0.0.0/24",
        service_node_port_range: str = "30000-32767",
        service_account_issuer: str | Sequence[str] = "",
        service_account_key_files: Sequence[str | Path] = (),
        service_account_signing_key_file: str | Path | None = None,
        service_account_max_token_expiration: int = 0,
        service_account_extend_token_expiration: bool = True,
        service_account_jwks_uri: str = "",
        api_audiences: Sequence[str] = (),
        default_toleration_seconds: tuple[int, int] = (300, 300),
        priority_and_fairness: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        webhook_resolve: Mapping[str, str] | None = None,
        event_ttl: int | None = None,
        encryption_provider_config: str | Path | None = None,
        encryption_provider_config_automatic_reload: bool = False,
        audit: AuditOptions | None = None,
        authentication_config: str | Path | None = None,
        oidc: OIDCOptions | None = None,
        authentication_token_webhook_config_file: str | Path | None = None,
        authentication_token_webhook_cache_ttl: float = 120.0,
        authorization_config: str | Path | None = None,
        authorization_webhook_config_file: str | Path | None = None,
        authorization_webhook_cache_ttls: tuple[float, float] = (300.0, 30.0),
        tracing_config_file: str | Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        shares_port: bool = False,
        is_worker: bool = False,
        server_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.disabled_plugins = frozenset(disable_admission_plugins)
        self.enabled_plugins = frozenset(enable_admission_plugins)
        check_names(enable=self.enabled_plugins, disable=self.disabled_plugins)
        self.store = open_storage(store) if isinstance(store, str) else store
        """The store itself; `storage` encrypts the values in it, if that is configured."""
        self.storage = self.store
        if encryption_provider_config_automatic_reload and encryption_provider_config is None:
            raise ValueError(
                "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
            )
        if encryption_provider_config is not None:
            from .encryption import EncryptedStorage

            self.storage = EncryptedStorage.from_config(self.storage, encryption_provider_config)
        authorization = read_authorization_settings(
            auth,
            authorization_config,
            authorization_webhook_config_file,
            allow_seconds=authorization_webhook_cache_ttls[0],
            deny_seconds=authorization_webhook_cache_ttls[1],
        )
        self.reloaded_files = {
            "authentication": authentication_config,
            "authorization": authorization_config,
            "encryption": encryption_provider_config if encryption_provider_config_automatic_reload else None,
        }
        """Configuration files that are loaded again when they change."""
        self.reloaders: dict[str, ConfigReloader] = {}
        self.shares_port = shares_port or is_worker
        """Whether other processes listen on the port, too."""
        self.is_worker = is_worker
        """Whether another process with the same store and options writes the bootstrap objects, and runs the
        controllers and nodes: this one only serves requests. It listens when it is ready."""
        self.runs_controllers = controllers and not is_worker
        self.nodes = nodes
        """Number of simulated nodes, or the file that describes them; 0 runs no workload components."""
        check_node_options(nodes, run_processes=run_processes, kubelet_directory=kubelet_directory)
        self.run_processes = run_processes
        """Whether the commands of containers run as processes of this machine."""
        self.kubelet_directory = kubelet_directory
        """Directory with one of each simulated node, for device plug-ins and CSI drivers."""
        self.disabled_controllers = frozenset(disable_controllers)
        check_controller_names(self.disabled_controllers)
        self.load_balancer_range = load_balancer_range
        """CIDRs of the addresses of LoadBalancer services, separated by commas; used with nodes."""
        for part in load_balancer_range.split(","):
            ipaddress.ip_network(part.strip())
        self.lease_duration = lease_duration
        """Seconds after which another replica continues the controllers of one that was killed."""
        self.bind = bind
        self.port = port
        if http2:
            from kubewright.apiserver.http.server import require_http2

            require_http2()
        self.http2 = http2
        """Whether clients can negotiate HTTP/2."""
        self.hosts = tuple(hosts)
        signing = service_account_signing_key_file
        self._supplied = SuppliedCredentials(
            serving=read_key_pair(tls_key_pair),
            front_proxy_client=read_key_pair(proxy_client_key_pair),
            kubelet_client=read_key_pair(kubelet_client_key_pair),
            signing_key=read_named_file(signing) if signing is not None else b"",
            directory=Path(cert_dir) if cert_dir is not None else None,
        )
        self._kubelet_address_types = tuple(kubelet_preferred_address_types)
        self._tls_min_version = tls_min_version
        self._tls_cipher_suites = tuple(tls_cipher_suites)
        if self._tls_cipher_suites:
            from kubewright.tls.cipher_suites import check_cipher_suites

            check_cipher_suites(self._tls_cipher_suites)
        self.advertise_address = advertise_address
        """IP address in the endpoints of the service `kubernetes`; by default that of `bind`."""
        self.runtime_config = dict(runtime_config or {})
        """Built-in API versions to enable or disable, as in `--runtime-config` of kube-apiserver."""
        self.service_ranges = parse_service_ranges(service_cluster_ip_range)
        """Ranges of cluster IPs: one, or one of each family for dual-stack services."""
        self.node_ports = parse_port_range(service_node_port_range)
        self._toleration_seconds = default_toleration_seconds
        self.priority_and_fairness = priority_and_fairness
        """Whether FlowSchemas and priority levels apply; else only the limits of requests in flight."""
        self.feature_gates = {**DEFAULT_GATES, **(feature_gates or {})}
        """Features that can be enabled or disabled, by the names of kube-apiserver."""
        self.webhook_resolve = dict(webhook_resolve or {})
        self.api_audiences = tuple(api_audiences)
        issuers = (
            (service_account_issuer,) if isinstance(service_account_issuer, str) else service_account_issuer
        )
        self.service_account_issuers = tuple(each for each in issuers if each) or (
            "https://kubernetes.default.svc",
        )
        self._account_keys = [read_named_file(path) for path in service_account_key_files]
        authentication = AuthenticationSettings(
            token_files=[StaticTokenAuthenticator.from_file(token_auth_file)]
            if token_auth_file is not None
            else (),
            bootstrap_tokens=bootstrap_token_auth,
            external_tokens=read_external_tokens(
                authentication_config,
                authentication_token_webhook_config_file,
                self.service_account_issuers,
                oidc=oidc,
                webhook_cache_seconds=authentication_token_webhook_cache_ttl,
            ),
            account_issuers=self.service_account_issuers,
            client_ca=read_certificates(Path(client_ca_file)) if client_ca_file is not None else b"",
            front_proxy=front_proxy,
            anonymous=anonymous,
        )
        self._kubeconfig = Path(kubeconfig) if kubeconfig is not None else None
        self._scratch: Path | None = None
        self._stopping = asyncio.Event()
        self._parts: list[Any] = []
        self._token_options: dict[str, Any] = {
            "max_expiration": service_account_max_token_expiration,
            "extend_expiration": service_account_extend_token_expiration,
        }
        self._jwks_uri = service_account_jwks_uri
        options = {"cbor": self.feature_gates["CBORServingAndStorage"], **(server_options or {})}
        self.server = APIServer(self.storage, clock=clock, rng=rng, **options)
        apply_gates(self.server, self.feature_gates)
        if encryption_provider_config is not None:
            self.server.health.add("kms-providers", self.storage.check_health)
        if audit is not None:
            self.server.auditor = audit.auditor()
        if tracing_config_file is not None:
            from kubewright.apiserver.tracing import RequestTracer, TracingConfiguration

            self.server.tracer = RequestTracer(TracingConfiguration.from_file(tracing_config_file))
        self.service_resolver = ServiceResolver(self.server, self.webhook_resolve)
        self.webhook_client = WebhookClient(self.service_resolver)
        self.front: HTTPServer | None = None
        self.credentials: PlaneCredentials
        self.issuer: TokenIssuer
        self.informers = Informers(self.server)
        self.cluster = ClusterControllers(self)
        self.authorization = Authorization(self.informers, authorization)
        self.server.authorizer = self.authorization.authorizer
        self.authentication = Authentication(self.server, authentication)
        self._declare()
        if event_ttl is not None:
            set_event_ttl(self.server, event_ttl)

    # Addresses and credentials

    @property
    def url(self) -> str:
        """The URL of the server."""
        if self.front is None:
            raise RuntimeError("this control plane does not listen; use server.handle")
        return self.front.url

    @property
    def authority(self) -> CertificateAuthority:
        """The certificate authority of the server and of client certificates."""
        return self.credentials.authority

    @property
    def ca(self) -> bytes:
        """The certificate authority (PEM) of the server."""
        return self.front.authority_pem if self.front is not None else self.authority.certificate

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file of an administrator, readable only by its owner."""
        if self._kubeconfig is None:
            raise RuntimeError("this control plane does not listen; use server.handle")
        return self._kubeconfig

    def write_kubeconfig(self, path: str | Path, *, user: str, groups: Iterable[str] = ()) -> None:
        """Write a kubeconfig with a client certificate for another user."""
        if self.front is None:
            raise RuntimeError("this control plane does not listen; use server.handle")
        self.front.write_kubeconfig(path, client=self.authority.issue(user, groups=groups))

    def client(
        self, *, user: User | str | None = None, namespace: str = "default", user_agent: str = ""
    ) -> Client:
        """Return a client that calls the server in this process, without a network.

        By default the user is an administrator; a user name has no groups but `system:authenticated`.
        """
        from kubewright.apiserver.in_process import ADMINISTRATOR, InProcessTransport
        from kubewright.client.client import Client

        if isinstance(user, str):
            user = User(user, (AUTHENTICATED,))
        transport = InProcessTransport(self.server, user or ADMINISTRATOR)
        return Client.from_transport(transport, namespace=namespace, user_agent=user_agent)

    @property
    def workloads(self) -> Workloads | None:
        """Workload controllers and nodes; `None` without nodes, or if they run on another replica."""
        return self.cluster.workloads

    # Assembly

    def _declare(self) -> None:
        reviews = AccessReviews(self.server.authorizer, self.authorization.rules)
        handlers = {**reviews.handlers, **self.authentication.reviews.handlers}
        token = TokenRequests(self.server, lambda: self.issuer, **self._token_options).subresource()
        for resource in builtin_resources(
            extra_handlers=handlers,
            extra_subresources={("", "serviceaccounts"): {"token": token}},
            runtime_config=self.runtime_config,
        ):
            self.server.add(resource)
        set_node_ports(self.server, self.node_ports)
        if self.nodes not in (0, "0"):
            add_metrics_api(self.server, lambda: self.workloads)
        self.server.delete_options_wire = builtin_codec()

    async def _identify(self) -> None:
        """Load the credentials and authenticate requests with them."""
        hosts = serving_hosts(self.bind, self.service_ranges, self.hosts)
        self.credentials = await load_plane_credentials(self.storage, self._supplied, hosts)
        self.issuer = TokenIssuer(
            self.service_account_issuers[0],
            self.credentials.signing_key,
            keys=self._account_keys,
            audiences=self.api_audiences,
            jwks_uri=self._jwks_uri,
        )
        self.issuer.publish(self.server, lambda: self.url if self.front is not None else "")
        self.authentication.configure(self.credentials, self.issuer)

    def _admit(self) -> None:
        from .admission import arranged, default_plugins
        from .webhooks import MutatingWebhooks, ValidatingWebhooks

        plugins = [
            *default_plugins(self.server, self.informers, toleration_seconds=self._toleration_seconds),
            MutatingWebhooks(self.server, self.webhook_client, self.informers),
            ValidatingWebhooks(self.server, self.webhook_client, self.informers),
        ]
        for plugin in arranged(plugins, enable=self.enabled_plugins, disable=self.disabled_plugins):
            self.server.admission.add(plugin)
        if self.authorization.rules is not None:
            self.server.admission.add(EscalationCheck(self.authorization.rules, self.server.authorizer))
        self.server.admission.add(ClaimStatusCheck(self.server.authorizer))

    async def _define(self) -> None:
        """Serve custom resources."""
        from .crds import CustomResourceDefinitions

        self.definitions = CustomResourceDefinitions(self.server, self.informers, self.webhook_client)
        self._parts.append(self.definitions)
        await self.definitions.start()

    def _assemble(self) -> None:
        """Create the flow classifier, the aggregator and the controllers of the API server."""
        from .aggregation import Aggregator
        from .controllers import ControllerManager
        from .controllers.service_allocations import ServiceAllocationRepair
        from .kubelets import ADDRESS_TYPES, connect_kubelets
        from .kubelets import USER as KUBELET_CLIENT

        self._kubelets = connect_kubelets(
            self.server,
            lambda: self._supplied.kubelet_client or self.authority.issue(KUBELET_CLIENT, groups=(MASTERS,)),
            self._kubelet_address_types or ADDRESS_TYPES,
        )
        self._parts.append(self._kubelets)
        if self.priority_and_fairness:
            total = self.server.max_in_flight + self.server.max_mutating_in_flight
            flows = FlowClassifier(self.informers, total)
            self.server.classify = flows.headers
            flows.control.estimate = WorkEstimator(self.server).estimate
            self.server.flow_control = flows.control
            self.server.metrics.registry.register(FlowMetrics(flows.control, total))
        self.controllers = ControllerManager(self.server, self.informers)
        self.aggregator = Aggregator(
            self.server, self.informers, self.service_resolver, lambda: self.credentials.front_proxy_client
        )
        self.controllers.add(self.aggregator)
        if not self.is_worker:
            self.controllers.add(ServiceAllocationRepair(self.server, self.informers))
        self._parts.append(self.aggregator)

    async def _control(self) -> None:
        """Write the APIServices and the authentication config map, then start the controllers."""
        from .aggregation.authentication_config import publish

        if not self.is_worker:
            await self.aggregator.local.write()
            authentication = self.authentication
            await publish(self.server, authentication.client_authorities, authentication.front_proxy)
        await self.controllers.start()
        self._parts.append(self.controllers)
        if not self.is_worker:
            self._parts.append(self.cluster)
            await self.cluster.start()

    async def wait_until_idle(self) -> None:
        """Wait until no controller, nor the scheduler or a simulated node, has work that is due."""
        while True:
            before = await self.storage.revision()
            await self.controllers.wait_until_idle()
            await self.cluster.wait_until_idle()
            if await self.storage.revision() == before:
                return

    async def _listen(self) -> None:
        from kubewright.apiserver.http.ports import check_port
        from kubewright.apiserver.http.server import HTTPServer

        assert self.port is not None
        if self.shares_port and not self.is_worker:
            # Otherwise the connections to another server with this option would be divided among both.
            check_port(self.bind, self.port)
        self.front = HTTPServer(
            self.server,
            host=self.bind,
            port=self.port,
            certificate=self.credentials.serving,
            authority=self.authority,
            client_authorities=(
                self.authentication.client_authorities,
                self.authentication.front_proxy.client_ca,
            ),
            http2=self.http2,
            tls_min_version=ssl.TLSVersion.TLSv1_3
            if self._tls_min_version == "1.3"
            else ssl.TLSVersion.TLSv1_2,
            tls_cipher_suites=self._tls_cipher_suites,
            reuse_port=self.shares_port,
        )
        await self.front.start()
        self.port = self.front.port
        address = self.front.url.removeprefix("https://")
        self.server.discovery.addresses = lambda: [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]

    async def _write_bootstrap(self) -> None:
        host = (
            "127.0.0.1" if self.front is None else self.front.url.rpartition(":")[0].removeprefix("https://")
        )
        address = self.advertise_address or host.strip("[]")
        try:
            ipaddress.ip_address(address)
        except ValueError:
            address = "127.0.0.1"
        await bootstrap(
            self.server,
            service_ranges=self.service_ranges,
            address=address,
            port=self.port or 443,
            rbac=self.authorization.rules is not None,
        )
        if self.feature_gates["APIServerIdentity"]:
            lease = IdentityLease(self.server, self.port)
            await lease.start()
            self._parts.append(lease)

    # Lifecycle

    async def start(self) -> None:
        """Start everything; return when the control plane is ready."""
        await self.server.start()
        ready = Readiness(self.server.health, self.informers)
        try:
            await self._identify()
            self._admit()
            await self._define()
            ready.definitions = self.definitions
            ready.complete(readiness.DEFINITIONS)
            if self.port is not None and not self.is_worker:
                await self._listen()
            if not self.is_worker:
                await self._write_bootstrap()
            ready.complete(readiness.BOOTSTRAP)
            self._assemble()
            await self._control()
            ready.complete(readiness.AGGREGATION + readiness.CONTROLLERS)
            if self.port is not None and self.is_worker:
                await self._listen()
            elif self.front is not None:
                if self._kubeconfig is None:
                    self._scratch = Path(tempfile.mkdtemp(prefix="kubewright-"))
                    self._kubeconfig = self._scratch / "kubeconfig"
                self.front.write_kubeconfig(self._kubeconfig, client=self.credentials.admin)
            if any(self.reloaded_files.values()):
                from .plane_reloads import config_reloaders

                self.reloaders = config_reloaders(self)
                for reloader in self.reloaders.values():
                    self._parts.append(reloader)
                    await reloader.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop controllers, end watches and connections, close the storage."""
        self._stopping.set()
        while self._parts:
            await self._parts.pop().stop()
        await self.informers.stop()
        if self.front is not None:
            self.front.stop_listening()
        if self.server.started:
            await self.server.stop()
        # Requests in flight need these.
        await self.webhook_client.close()
        await self.authorization.close()
        await self.authentication.close()
        if self.front is not None:
            await self.front.stop(1.0)
            self.front = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = self._kubeconfig = None

    async def stopped(self) -> None:
        """Wait until `stop` is called."""
        await self._stopping.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()
