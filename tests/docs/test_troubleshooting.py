"""Every public exception is in a table of docs/troubleshooting.md, or exempt with a reason."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from pathlib import Path

from tests.docs.code_blocks import ROOT

SOURCE = ROOT / "src" / "kubewright"
PAGE = ROOT / "docs" / "troubleshooting.md"

EXEMPT = {
    "always caught by its callers, so no message shows it": (
        "api.encoding.yaml_limits:YAMLLimitError",
        "apiserver.encoding.yaml_events:TooDeep",
        "apiserver.encoding.yaml_events:UnsupportedEvents",
        "apiserver.rest.field_managers:ConversionRequired",
        "cel.syntax.macros:MacroError",
        "controlplane.admission.policies.expressions:AccessCheckPending",
        "controlplane.controllers.garbage_collector:UnknownKind",
        "controlplane.encryption.providers:KeyNotLoaded",
        "explore.runs.forks:RunCrashed",
        "explore.simulation.transport:InjectedResponse",
        "patch.field_manager:VersionNotServed",
        "storage.etcd.connection:RevisionUnreadable",
    ),
    "between a storage and the API server, whose response is AlreadyExists, Conflict, Expired or a limit": (
        "storage.contract:Compacted",
        "storage.contract:FutureRevision",
        "storage.contract:KeyExists",
        "storage.contract:RequestTooLarge",
        "storage.contract:RevisionMismatch",
    ),
    "the API server responds with the text of kube-apiserver; clients raise an APIError": (
        "api.builtin.typed_codec:TypedDecodeError",
        "apiserver.authentication.impersonation:IncompleteImpersonation",
        "apiserver.authentication.serviceaccount:TokenInvalidated",
        "apiserver.resources.conversion:ConversionFailed",
        "apiserver.routing_errors:NoRepresentation",
        "apiserver.routing_errors:NoSuchMethod",
        "apiserver.routing_errors:NoSuchResource",
        "apiserver.routing_errors:UnknownMediaType",
        "apiserver.routing_errors:Unrouted",
        "apiserver.streams.spdy:SpdyError",
        "controlplane.admission.policies.expressions:EvaluationError",
        "controlplane.admission.policies.expressions:OutOfBudget",
        "controlplane.admission.policies.policies:ConfigurationError",
        "controlplane.jwt_authentication.claims:ClaimError",
        "controlplane.jwt_authentication.issuer_keys:KeysUnavailable",
        "controlplane.kinds.batch.job_status:IndexesError",
        "controlplane.webhooks.client:CallError",
        "controlplane.webhooks.review:BadPatch",
        "controlplane.webhooks.review:Undecodable",
        "patch.managed_fields:ManagedFieldsError",
        "patch.path_elements:FieldSetError",
        "patch.typed:TypedError",
        "schema.crd.field_paths:FieldPathError",
        "schema.crd.scale:PathError",
        "schema.validation.metadata:MetadataError",
        "schema.version:TooDeepError",
    ),
    "a condition or event of the object has the text of the Kubernetes component": (
        "controlplane.controllers.storage_migrations:MigrationFailed",
        "controlplane.crds.finalization:Incomplete",
        "workloads.cloud.service_controller:SyncError",
        "workloads.controllers.certificates.requests:InvalidRequest",
        "workloads.controllers.pod_autoscaler.metric_proposals:ProposalError",
        "workloads.controllers.pod_autoscaler.replica_calculation:MetricError",
        "workloads.controllers.stateful_set.claims:ClaimError",
        "workloads.nodes.containers.runtime:ContainerStartError",
        "workloads.nodes.kubelet_api.server:KubeletError",
        "workloads.nodes.plugins.csi_mounts:MountError",
        "workloads.nodes.plugins.csi_mounts:VolumeNotAttached",
        "workloads.nodes.plugins.device_endpoint:AllocationError",
        "workloads.nodes.processes.cluster_reader:MissingReference",
        "workloads.nodes.processes.container_process:RuntimeExecError",
        "workloads.nodes.processes.volumes.downward_api:UnsupportedField",
        "workloads.pod_metrics:MetricNotFound",
        "workloads.scheduler.extender:ExtenderError",
        "workloads.scheduler.framework.status:FitError",
        "workloads.scheduler.framework.status:NoNodesAvailable",
    ),
    "the response of a fake application to the operator under test": (
        "testing.applications.application:CallFailed",
        "testing.applications.sql:SQLError",
    ),
}


PYTHON = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


@cache
def exceptions_of(source: Path) -> set[str]:
    """Return the public exception classes below a directory as `module:name`.

    A class is an exception if a base has the name of one: of Python, of this package, or, for those of
    libraries, with the usual suffix.
    """
    classes: list[tuple[str, str, set[str]]] = []
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                classes.append((module, node.name, bases))
    defined = {name for _, name, _ in classes}
    foreign = set().union(*(bases for _, _, bases in classes)) - defined
    known = {each for each in foreign if each in PYTHON or each.endswith(("Error", "Exception"))}
    before = 0
    while len(known) != before:
        before = len(known)
        known |= {name for _, name, bases in classes if bases & known}
    return {
        f"{module}:{name}" for module, name, bases in classes if bases & known and not name.startswith("_")
    }


def documented() -> list[str]:
    """Return the names in the first column of the tables of error classes."""
    tables = PAGE.read_text(encoding="utf-8").partition("\n## Error classes\n")[2]
    rows = re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_every_exception_is_documented_or_exempt() -> None:
    found = exceptions_of(SOURCE)
    exempt = {name for names in EXEMPT.values() for name in names}
    named = documented()
    missing = {each for each in found - exempt if each.partition(":")[2] not in named}
    assert not missing, f"add them to a table of docs/troubleshooting.md, with a remedy: {sorted(missing)}"


def test_tables_and_exemptions_are_current() -> None:
    found = exceptions_of(SOURCE)
    exempt = [name for names in EXEMPT.values() for name in names]
    assert set(exempt) <= found, f"no such exception: {sorted(set(exempt) - found)}"
    assert len(set(exempt)) == len(exempt)
    remaining = {each.partition(":")[2] for each in found - set(exempt)}
    named = documented()
    assert len(set(named)) == len(named), "a class is in two rows"
    assert set(named) <= remaining, f"not an exception, or exempt: {sorted(set(named) - remaining)}"


def test_exceptions_are_found_by_their_bases(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import click\n"
        "class Late(Lost): ...\n"
        "class Lost(LookupError): ...\n"
        "class Printed(click.ClickException): ...\n"
        "class _Hidden(Exception): ...\n"
        "class Value(dict): ...\n",
        encoding="utf-8",
    )
    assert exceptions_of(tmp_path) == {"a:Late", "a:Lost", "a:Printed"}
