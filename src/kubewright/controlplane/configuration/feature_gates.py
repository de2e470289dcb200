"""Feature gates of kube-apiserver: those that this server has a feature for, and all others.

The table of versions (`kubernetes_version`) has the gates of each version with their stages and defaults. For
gates without an effect the behaviour is that of the defaults, and another value is named in a warning.
Unknown and locked gates are errors, as in kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kubewright.api.kubernetes_version import KubernetesVersion, version_table
from kubewright.options.kinds import parse_boolean

if TYPE_CHECKING:
    from prometheus_client import Metric

    from kubewright.apiserver.server import APIServer

EFFECTIVE: Final[Mapping[str, bool]] = {
    "APIServerIdentity": True,
    "CBORServingAndStorage": False,
    "ComponentFlagz": True,
    "ComponentStatusz": True,
    "WatchList": True,
}
"""Gates with an effect, and their defaults in the newest version.

`APIServerIdentity`: the identity lease; `CBORServingAndStorage`: requests and responses in CBOR (objects are
stored in JSON in any case); `ComponentFlagz`, `ComponentStatusz`: `/flagz` and `/statusz`; `WatchList`:
watches with `sendInitialEvents`.
"""


def default_gates(version: KubernetesVersion) -> dict[str, bool]:
    """Return the gates with an effect, and their defaults in a version."""
    if version.is_newest:
        return dict(EFFECTIVE)
    gates = version.gates()
    return {name: name in gates and gates[name].enabled for name in EFFECTIVE}


def parse_gates(pairs: Iterable[str]) -> dict[str, bool]:
    """Return the `NAME=VALUE` pairs of `--feature-gates`; raises `ValueError` if no version has a gate."""
    gates: dict[str, bool] = {}
    for pair in pairs:
        name, equals, text = pair.rpartition(":")[2].partition("=")
        name, text = name.strip(), text.strip()
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        try:
            value = parse_boolean(text)
        except ValueError:
            raise ValueError(f"invalid value of {name}={text}, expected true or false") from None
        if name not in version_table()["gates"]:
            raise ValueError(f"unrecognized feature gate: {name}")
        gates[name] = value
    return gates


def check_gates(gates: Mapping[str, bool], version: KubernetesVersion) -> None:
    """Raise `ValueError`, with the messages of kube-apiserver, for gates that are unknown or locked."""
    known = version.gates() if gates else {}
    for name, value in gates.items():
        gate = known.get(name)
        if gate is None:
            raise ValueError(f"unrecognized feature gate: {name}")
        if gate.locked and value != gate.enabled:
            shown, locked = str(value).lower(), str(gate.enabled).lower()
            raise ValueError(f"cannot set feature gate {name} to {shown}, feature is locked to {locked}")


def warn_of_gates(gates: Mapping[str, bool] | None, version: str = "") -> list[str]:
    """Return the warning of gates that differ from the default but have no effect, if there are any."""
    known = KubernetesVersion.parse(version).gates() if gates else {}
    names = [
        f"{name}={str(value).lower()}"
        for name, value in (gates or {}).items()
        if name not in EFFECTIVE and value != known[name].enabled
    ]
    return [f"ignored feature gates that have no effect here: {' '.join(names)}"] if names else []


def apply_gates(server: APIServer, gates: Mapping[str, bool]) -> None:
    """Disable the features of a server whose gates are disabled."""
    server.watch_list = gates["WatchList"]
    if not gates["ComponentFlagz"]:
        server.remove_handler("/flagz")
    if not gates["ComponentStatusz"]:
        server.remove_handler("/statusz")


class FeatureGateMetrics:
    """`kubernetes_feature_enabled`: the gates of a version, as they are set."""

    def __init__(self, version: KubernetesVersion, gates: Mapping[str, bool]) -> None:
        self._version = version
        self._gates = gates

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not read the table of versions."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the samples."""
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(
            "kubernetes_feature_enabled", "Whether a feature is enabled, by stage.", labels=["name", "stage"]
        )
        for name, gate in sorted(self._version.gates().items()):
            stage = {"alpha": "ALPHA", "beta": "BETA", "deprecated": "DEPRECATED"}.get(gate.stage, "")
            family.add_metric([name, stage], float(self._gates.get(name, gate.enabled)))
        yield family
