"""The file of `--tracing-config-file`: `TracingConfiguration` of `apiserver.config.k8s.io`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
DEFAULT_ENDPOINT: Final = "localhost:4317"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingConfiguration:
    """Where spans are sent to, and how many requests are traced."""

    endpoint: str = DEFAULT_ENDPOINT
    """Address of a collector that accepts OTLP over gRPC, without TLS."""
    sampling_rate_per_million: int = 0
    """Requests per million that are traced, in addition to those whose trusted client traces them."""

    @classmethod
    def from_file(cls, path: str | Path) -> TracingConfiguration:
        """Read a file; raises `OSError`, or `ValueError` with the path."""
        try:
            return cls.parse(yaml.safe_load(Path(path).read_bytes()))
        except yaml.YAMLError as error:
            raise ValueError(
                f"tracing config {path} is not valid YAML: {' '.join(str(error).split())}"
            ) from None
        except ValueError as error:
            raise ValueError(f"tracing config {path}: {error}") from None

    @classmethod
    def parse(cls, document: Any) -> TracingConfiguration:
        """Return the configuration of a decoded document; raises `ValueError`."""
        if (
            not isinstance(document, dict)
            or document.get("kind") != "TracingConfiguration"
            or document.get("apiVersion") not in VERSIONS
        ):
            raise ValueError(f"expected kind TracingConfiguration and apiVersion {VERSIONS[0]}")
        unknown = document.keys() - {"apiVersion", "kind", "endpoint", "samplingRatePerMillion"}
        if unknown:
            raise ValueError(f"unknown fields {', '.join(sorted(unknown))}")
        rate = document.get("samplingRatePerMillion") or 0
        if type(rate) is not int or not 0 <= rate <= 1_000_000:
            why = "sampling rate must be between 0 and one million"
            raise ValueError(f"samplingRatePerMillion: Invalid value: {rate}: {why}")
        endpoint = document.get("endpoint") or DEFAULT_ENDPOINT
        if not isinstance(endpoint, str) or "://" in endpoint.removeprefix("dns:///"):
            raise ValueError(f"endpoint: Invalid value: {endpoint!r}: expected HOST:PORT without a scheme")
        return cls(endpoint=endpoint, sampling_rate_per_million=rate)
