"""`ControlPlane`: storage, API server, authentication, authorization, admission and controllers together.

    async with ControlPlane(store="sqlite:state.db", kubeconfig="kubeconfig") as plane:
        await plane.stopped()

Start order: open the storage, load or create credentials, set up authentication and admission, serve custom
resources, listen, write bootstrap objects, start the controllers. With `port=None` nothing listens;
requests are passed to `plane.server.handle`.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kubewright.api.kubernetes_version import KubernetesVersion, serving
from kubewright.apiserver.authentication.user import AUTHENTICATED, MASTERS, User
from kubewright.apiserver.encoding.protobuf import builtin_codec
from kubewright.apiserver.in_process import ADMINISTRATOR
from kubewright.apiserver.priority.work_estimate import WorkEstimator
from kubewright.apiserver.server import APIServer
from kubewright.apiserver.version_info import VersionInfo
from kubewright.controlplane.credentials.plane_credentials import advertised_address, serving_hosts
from kubewright.options.model import method_accepts_options
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
from .bootstrap.objects import bootstrap
from .builtins import builtin_resources
from .cluster_controllers import ClusterControllers
from .configuration.feature_gates import FeatureGateMetrics, apply_gates, default_gates
from .configuration.plane_options import check_options, open_store, parse_port_range, parse_service_ranges
from .configuration.real_nodes import parse_endpoint, runs_workloads, with_real_nodes
from .configuration.resource_settings import add_metrics_api, set_event_ttl, set_node_ports
from .controller_names import check_controller_names
from .credentials.plane_credentials import PlaneCredentials, SuppliedCredentials, load_plane_credentials
from .history import ClusterHistory, Moment
from .identity import TokenIssuer, TokenRequests
from .identity.authentication import Authentication, AuthenticationSettings
from .in_process_clients import in_process_client
from .informers import Informers
from .options import ControlPlaneOptions
from .priority.flow_classifier import FlowClassifier
from .priority.flow_metrics import FlowMetrics
from .readiness import Readiness
from .replicas.identity_lease import IdentityLease
from .store_version import adopt_store
from .webhooks import ServiceResolver, WebhookClient

if TYPE_CHECKING:
    from kubewright.apiserver.http.server import HTTPServer
    from kubewright.client import Client
    from kubewright.storage.local import Rewound
    from kubewright.tls.certificates import CertificateAuthority
    from kubewright.workloads.workloads import Workloads

    from .configuration.config_reload import ConfigReloader


class ControlPlane:
    """A Kubernetes control plane in this process. Use it with `async with`, or `start()` and `stop()`."""

    @method_accepts_options(ControlPlaneOptions)
    def __init__(self, options: ControlPlaneOptions) -> None:
        """Create a control plane; keyword arguments are the fields of `ControlPlaneOptions`."""
        self._configure(options)

    @classmethod
    def from_options(cls, options: ControlPlaneOptions) -> Self:
        """Create a control plane from options."""
        plane = cls.__new__(cls)
        plane._configure(options)
        return plane

    def _configure(self, options: ControlPlaneOptions) -> None:
        self.options = options = with_real_nodes(options)
        """The options, which do not change: `port` of the plane is the chosen one."""
        check_options(options)
        self.kubernetes_version = KubernetesVersion.parse(options.kubernetes_version)
        """The version of Kubernetes whose API is served."""
        self.disabled_plugins = frozenset(options.disable_admission_plugins)
        self.enabled_plugins = frozenset(options.enable_admission_plugins)
        check_names(
            enable=self.enabled_plugins, disable=self.disabled_plugins, version=self.kubernetes_version
        )
        self.disabled_controllers = frozenset(options.disable_controllers)
        check_controller_names(self.disabled_controllers)
        self.store = open_store(options)
        """The store itself; `storage` encrypts the values in it, if that is configured."""
        self.storage = self.store
        encryption = options.encryption_provider_config
        if encryption is not None:
            from .encryption import EncryptedStorage

            self.storage = EncryptedStorage.from_config(self.storage, encryption)
        authorization = read_authorization_settings(
            options.auth,
            options.authorization_config,
            options.authorization_webhook_config_file,
            allow_seconds=options.authorization_webhook_cache_ttls[0],
            deny_seconds=options.authorization_webhook_cache_ttls[1],
        )
        self.reloaded_files = {
            "authentication": options.authentication_config,
            "authorization": options.authorization_config,
            "encryption": encryption if options.encryption_provider_config_automatic_reload else None,
        }
        """Configuration files that are loaded again when they change."""
        self.reloaders: dict[str, ConfigReloader] = {}
        self.shares_port = options.shares_port or options.is_worker
        self.is_worker = options.is_worker
        self.runs_controllers = options.controllers and not options.is_worker
        self.bind = options.bind
        self.advertised_address = advertised_address(options.bind, options.advertise_address)
        endpoint = options.control_plane_endpoint
        self._endpoint = parse_endpoint(endpoint) if endpoint else None
        """IP address in the endpoints of the service `kubernetes`."""
        self.port = options.port
        self._supplied = SuppliedCredentials.read(options)
        self.service_ranges = parse_service_ranges(options.service_cluster_ip_range)
        """Ranges of cluster IPs: one, or one of each family for dual-stack services."""
        self.feature_gates = {**default_gates(self.kubernetes_version), **(options.feature_gates or {})}
        """Features that can be enabled or disabled, by the names of kube-apiserver."""
        issuers = options.service_account_issuer
        self.service_account_issuers = tuple(
            each for each in ((issuers,) if isinstance(issuers, str) else issuers) if each
        ) or ("https://kubernetes.default.svc",)
        self._account_keys = [read_named_file(path) for path in options.service_account_key_files]
        authentication = AuthenticationSettings.read(options, self.service_account_issuers)
        self._kubeconfig = Path(options.kubeconfig) if options.kubeconfig is not None else None
        self._scratch: Path | None = None
        self._stopping = asyncio.Event()
        self._parts: list[Any] = []
        self.server = APIServer(
            self.storage,
            **{
                "version": VersionInfo.of(self.kubernetes_version),
                "clock": options.clock,
                "rng": options.rng,
                "cbor": self.feature_gates["CBORServingAndStorage"],
                "request_timeout": options.request_timeout,
                "max_in_flight": options.max_requests_inflight,
                "max_mutating_in_flight": options.max_mutating_requests_inflight,
                "watch_timeout": (options.min_request_timeout, 2 * options.min_request_timeout),
                "compaction_interval": options.compaction_interval,
                **(options.server_options or {}),
            },
        )
        self.server.kubernetes_version = self.kubernetes_version
        apply_gates(self.server, self.feature_gates)
        self.server.metrics.registry.register(FeatureGateMetrics(self.kubernetes_version, self.feature_gates))
        if encryption is not None:
            self.server.health.add("kms-providers", self.storage.check_health)
        if options.audit is not None:
            self.server.auditor = options.audit.auditor()
        if options.tracing_config_file is not None:
            from kubewright.apiserver.tracing import RequestTracer, TracingConfiguration

            self.server.tracer = RequestTracer(TracingConfiguration.from_file(options.tracing_config_file))
        self.service_resolver = ServiceResolver(self.server, dict(options.webhook_resolve or {}))
        self.webhook_client = options.webhook_client or WebhookClient(self.service_resolver)
        self.front: HTTPServer | None = None
        self.credentials: PlaneCredentials
        self.issuer: TokenIssuer
        self.informers = Informers(self.server)
        self.cluster = ClusterControllers(self)
        self.authorization = Authorization(self.informers, authorization)
        self.server.authorizer = self.authorization.authorizer
        self.authentication = Authentication(self.server, authentication)
        self._declare()
        self.history = ClusterHistory(self)
        """The earlier states of the cluster."""
        if options.event_ttl is not None:
            set_event_ttl(self.server, options.event_ttl)

    # Addresses and credentials

    @property
    def url(self) -> str:
        """The URL of the server."""
        if self.front is None:
            raise RuntimeError("this control plane does not listen; use server.handle")
        return self.front.url

    @property
    def advertised_url(self) -> str:
        """The URL of the server for other machines: the endpoint of all replicas, or the own address."""
        host, port = self._endpoint or (self.advertised_address, None)
        return f"https://{f'[{host}]' if ':' in host else host}:{port or self.port}"

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
        if isinstance(user, str):
            user = User(user, (AUTHENTICATED,))
        return in_process_client(
            self.server, user or ADMINISTRATOR, namespace=namespace, user_agent=user_agent
        )

    @property
    def workloads(self) -> Workloads | None:
        """Workload controllers and nodes; `None` without nodes, or if they run on another replica."""
        return self.cluster.workloads

    # Assembly

    def _declare(self) -> None:
        reviews = AccessReviews(self.server.authorizer, self.authorization.rules)
        handlers = {**reviews.handlers, **self.authentication.reviews.handlers}
        token = TokenRequests(
            self.server,
            lambda: self.issuer,
            max_expiration=self.options.service_account_max_token_expiration,
            extend_expiration=self.options.service_account_extend_token_expiration,
        ).subresource()
        for resource in builtin_resources(
            extra_handlers=handlers,
            extra_subresources={("", "serviceaccounts"): {"token": token}},
            runtime_config=self.options.runtime_config or {},
            version=self.kubernetes_version,
        ):
            self.server.add(resource)
        set_node_ports(self.server, parse_port_range(self.options.service_node_port_range))
        if runs_workloads(self.options):
            add_metrics_api(self.server, lambda: self.workloads)
        self.server.delete_options_wire = builtin_codec(self.kubernetes_version)

    async def _identify(self) -> None:
        """Load the credentials and authenticate requests with them."""
        named = (*self.options.hosts, *(self._endpoint or ())[:1])
        hosts = serving_hosts(self.bind, self.service_ranges, named, self.advertised_address)
        self.credentials = await load_plane_credentials(self.storage, self._supplied, hosts)
        self.issuer = TokenIssuer(
            self.service_account_issuers[0],
            self.credentials.signing_key,
            keys=self._account_keys,
            audiences=tuple(self.options.api_audiences),
            jwks_uri=self.options.service_account_jwks_uri,
        )
        self.issuer.publish(self.server, lambda: self.url if self.front is not None else "")
        self.authentication.configure(self.credentials, self.issuer)

    def _admit(self) -> None:
        from .admission import create_plugins
        from .admission.certificates import PodCertificateSigning

        not_ready, unreachable = self.options.default_toleration_seconds
        for plugin in create_plugins(
            enable=self.enabled_plugins,
            disable=self.disabled_plugins,
            version=self.kubernetes_version,
            server=self.server,
            informers=self.informers,
            client=self.webhook_client,
            not_ready=not_ready,
            unreachable=unreachable,
        ):
            self.server.admission.add(plugin)
        if self.authorization.rules is not None:
            self.server.admission.add(EscalationCheck(self.authorization.rules, self.server.authorizer))
        self.server.admission.add(ClaimStatusCheck(self.server.authorizer))
        self.server.admission.add(PodCertificateSigning(self.server))

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
        from .kubelets.kubelets import ADDRESS_TYPES, connect_kubelets
        from .kubelets.kubelets import USER as KUBELET_CLIENT

        self._kubelets = connect_kubelets(
            self.server,
            lambda: self._supplied.kubelet_client or self.authority.issue(KUBELET_CLIENT, groups=(MASTERS,)),
            tuple(self.options.kubelet_preferred_address_types) or ADDRESS_TYPES,
        )
        self._parts.append(self._kubelets)
        if self.options.priority_and_fairness:
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

    # Time travel

    async def rewind(self, to: Moment) -> Rewound:
        """Restore the objects as they were at a revision or time; requires storage in memory or SQLite."""
        return await self.history.rewind(to)

    def branch(self, at: Moment | None = None) -> ControlPlane:
        """Return another control plane, not started, with the objects of a revision or time, or of now.

        Objects are shared until they change.
        """
        return self.history.branch(at)

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
            http2=self.options.http2,
            tls_min_version=ssl.TLSVersion.TLSv1_3
            if self.options.tls_min_version == "1.3"
            else ssl.TLSVersion.TLSv1_2,
            tls_cipher_suites=tuple(self.options.tls_cipher_suites),
            reuse_port=self.shares_port,
        )
        await self.front.start()
        self.port = self.front.port
        address = self.front.url.removeprefix("https://")
        self.server.discovery.addresses = lambda: [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]

    async def _write_bootstrap(self) -> None:
        await bootstrap(
            self.server,
            service_ranges=self.service_ranges,
            address=self.advertised_address,
            port=self.port or 443,
            rbac=self.authorization.rules is not None,
        )
        if self.options.real_nodes and self.port is not None:
            from .bootstrap.join_objects import write_join_objects

            await write_join_objects(self)
        if self.feature_gates["APIServerIdentity"]:
            lease = IdentityLease(self.server, self.port)
            await lease.start()
            self._parts.append(lease)

    # Lifecycle

    async def start(self) -> None:
        """Start everything; return when the control plane is ready."""
        # Tasks that are started here, such as controllers, run with a copy of this context.
        with serving(self.kubernetes_version):
            await self._start()

    async def _start(self) -> None:
        await self.server.start()
        ready = Readiness(self.server.health, self.informers)
        try:
            await adopt_store(self.storage, self.server, self.kubernetes_version, writes=not self.is_worker)
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
                from kubewright.controlplane.configuration.config_reload import config_reloaders

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
