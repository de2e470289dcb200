"""How the containers of a pod behave: from settings, annotations and rules of a test.

Annotations have the prefix `sim.kubewright.dev/`. A suffix with the name of a container limits an annotation
to that container: `sim.kubewright.dev/exit-code.app: "1"`. A rule (`Pods.set`) has precedence over
annotations, which have precedence over the command of the container if it is a simple one (see
`simple_commands`), which has precedence over the settings.

| annotation | value | effect |
|---|---|---|
| start-delay | duration | the container starts after this time |
| ready-delay | duration | the container is ready this long after its start |
| exit-after | duration | the container exits this long after its start |
| exit-code | number | the container exits with this code |
| exit-count | number | it exits this often and then continues to run |
| exit-message | text | the termination message |
| oom | true | the container is killed by the kernel: exit code 137, reason OOMKilled |
| keep-running | true | the containers of a Job's pod do not exit |
| image-pull-error | text, or true | the image cannot be pulled: ErrImagePull, ImagePullBackOff |
| create-error | text | the container cannot be created: CreateContainerError |
| fail-readiness, fail-liveness, fail-startup | true, or text | the probe fails, with this output |
| termination-delay | duration | the container exits this long after the deletion of its pod |
| termination-exit-code | number | the exit code after the deletion of its pod |
| evict | text, or true | the kubelet evicts the pod, with this message |
| logs | text | the log of the container |

`cpu` and `memory` declare the usage of containers, see `kubewright.workloads.pod_metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Final

from kubewright.api.selectors.label_selectors import Selector, parse_selector, selector_from_labels
from kubewright.api.values.times import Duration
from kubewright.workloads.nodes.containers.simple_commands import simple_command
from kubewright.workloads.nodes.objects import Object, owner_kind
from kubewright.workloads.nodes.settings import SimulationSettings

PREFIX: Final = "sim.kubewright.dev/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerBehaviour:
    """The behaviour of one container. Errors and probe outputs are texts; empty texts are successes."""

    start_delay: float = 0.0
    ready_delay: float = 0.0
    exit_after: float | None = None
    """Seconds after which the container exits; `None` lets it run."""
    exit_code: int = 0
    exit_count: int | None = None
    exit_message: str = ""
    exit_reason: str = ""
    image_pull_error: str = ""
    create_error: str = ""
    fail_readiness: str = ""
    fail_liveness: str = ""
    fail_startup: str = ""
    termination_delay: float = 0.0
    termination_exit_code: int = 0
    evict: str = ""
    logs: str = ""


_DEFAULT_TEXTS: Final = {
    "image_pull_error": "rpc error: code = NotFound desc = failed to pull and unpack image: not found",
    "create_error": "failed to create containerd task",
    "fail_readiness": "HTTP probe failed with statuscode: 503",
    "fail_liveness": "HTTP probe failed with statuscode: 500",
    "fail_startup": "HTTP probe failed with statuscode: 503",
    "evict": "The node was low on resource: memory. ",
}
_EXITS: Final = frozenset(("exit_after", "exit_code", "exit_count", "oom", "keep_running"))
_ANNOTATIONS: Final = frozenset(each.name for each in fields(ContainerBehaviour)) | {"oom", "keep_running"}


def _text(name: str, value: str) -> str:
    if value.lower() in ("", "false"):
        return ""
    return _DEFAULT_TEXTS[name] if value.lower() == "true" else value


def _seconds(value: str) -> float:
    return Duration(value).total_seconds()


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    **dict.fromkeys(("start_delay", "ready_delay", "exit_after", "termination_delay"), _seconds),
    **dict.fromkeys(("exit_code", "exit_count", "termination_exit_code"), int),
    **dict.fromkeys(("exit_message", "exit_reason", "logs"), str),
    **{name: partial(_text, name) for name in _DEFAULT_TEXTS},
}


def parse_annotations(annotations: Mapping[str, str], container: str) -> dict[str, Any]:
    """Return the fields that annotations set for a container; values that cannot be parsed are ignored."""
    found: dict[str, Any] = {}
    specific: dict[str, Any] = {}
    for key, value in annotations.items():
        if not key.startswith(PREFIX):
            continue
        name, dot, only = key.removeprefix(PREFIX).partition(".")
        name = name.replace("-", "_")
        if name not in _ANNOTATIONS or (dot and only != container):
            continue
        target = specific if dot else found
        if name in ("oom", "keep_running"):
            target[name] = value.lower() == "true"
            continue
        try:
            target[name] = _PARSERS[name](value)
        except ValueError:
            continue
    return {**found, **specific}


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods by name, by labels or by a function."""

    namespace: str = ""
    name: str = ""
    labels: Selector | None = None
    function: Callable[[Object], bool] | None = None

    @classmethod
    def of(
        cls, selector: str | Mapping[str, str] | Callable[[Object], bool] | None, namespace: str = ""
    ) -> PodSelector:
        """Parse a selector: `name`, `namespace/name`, `app=web`, a mapping of labels, or a function."""
        if selector is None:
            return cls(namespace)
        if isinstance(selector, Mapping):
            return cls(namespace, labels=selector_from_labels(selector))
        if not isinstance(selector, str):
            return cls(namespace, function=selector)
        if any(sign in selector for sign in "=!(") or " in " in selector:
            return cls(namespace, labels=parse_selector(selector))
        space, slash, name = selector.rpartition("/")
        return cls(space if slash else namespace, name)

    def matches(self, pod: Object) -> bool:
        """Whether a pod is selected."""
        metadata = pod.get("metadata") or {}
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.name and metadata.get("name") != self.name:
            return False
        if self.labels is not None and not self.labels.matches(metadata.get("labels") or {}):
            return False
        return self.function is None or self.function(pod)


@dataclass(slots=True)
class BehaviourRule:
    """Fields of `ContainerBehaviour` for the containers of selected pods."""

    selector: PodSelector
    container: str = ""
    changes: dict[str, Any] = field(default_factory=dict)


_SPEC_FIELDS: Final = {
    "init": "initContainers",
    "sidecar": "initContainers",
    "ephemeral": "ephemeralContainers",
}


class BehaviourResolver:
    """Computes the behaviour of containers from settings, annotations and rules."""

    def __init__(self, settings: SimulationSettings) -> None:
        self.settings = settings
        self.rules: list[BehaviourRule] = []
        self._default = ContainerBehaviour(
            start_delay=settings.start_delay,
            ready_delay=settings.ready_delay,
            termination_delay=settings.termination_delay,
        )

    def behaviour(self, pod: Object, container: str, kind: str) -> ContainerBehaviour:
        """Return the behaviour of a container; `kind` is `init`, `sidecar`, `main` or `ephemeral`."""
        changes: dict[str, Any] = {}
        annotations = (pod.get("metadata") or {}).get("annotations")
        if annotations:
            changes = parse_annotations(annotations, container)
        for rule in self.rules:
            if rule.container in ("", container) and rule.selector.matches(pod):
                changes.update(rule.changes)
        from_command = changes.keys().isdisjoint(_EXITS) and self._apply_command(
            pod, container, kind, changes
        )
        if kind == "init":
            changes.setdefault("exit_after", self.settings.init_duration)
            # Without the name of the init container, exits are declared for the main containers.
            if not from_command and not self._names_container(annotations, container):
                changes.pop("exit_code", None)
        elif kind == "main":
            self._complete(pod, changes)
        if changes.pop("oom", False):
            changes.update(exit_code=137, exit_reason="OOMKilled")
            changes.setdefault("exit_after", self.settings.completion_delay)
        changes.pop("keep_running", None)
        return replace(self._default, **changes) if changes else self._default

    def _apply_command(self, pod: Object, container: str, kind: str, changes: dict[str, Any]) -> bool:
        """Set the exit and the output of a simple command; return whether the command is one."""
        field_name = _SPEC_FIELDS.get(kind, "containers")
        for spec in (pod.get("spec") or {}).get(field_name) or ():
            if spec.get("name") != container:
                continue
            found = simple_command(spec)
            if found is None:
                return False
            least = self.settings.init_duration if kind == "init" else self.settings.completion_delay
            endless = found.seconds == math.inf
            changes["exit_after"] = None if endless else max(found.seconds, least)
            changes["exit_code"] = found.exit_code
            changes.setdefault("exit_message", found.message(spec))
            changes.setdefault("logs", found.output)
            return True
        return False

    def _complete(self, pod: Object, changes: dict[str, Any]) -> None:
        if changes.get("keep_running"):
            changes["exit_after"] = None
        elif "exit_after" not in changes and (
            "exit_code" in changes or (self.settings.complete_jobs and owner_kind(pod) == "Job")
        ):
            changes["exit_after"] = self.settings.completion_delay

    def _names_container(self, annotations: Mapping[str, str] | None, container: str) -> bool:
        return f"{PREFIX}exit-code.{container}" in (annotations or {}) or any(
            rule.container == container and "exit_code" in rule.changes for rule in self.rules
        )
