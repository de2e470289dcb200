"""Write `src/kubewright/node/csi/messages.py` and `services.py` from the definition of the CSI specification.

    python tools/generate_csi_messages.py CSI_SPECIFICATION          # a clone, without a work tree is enough
    python tools/generate_csi_messages.py CSI_SPECIFICATION --check

`MESSAGES` lists the messages and enumerations that drivers use, with the docstrings of their classes; fields,
numbers and calls are read from `csi.proto` of the release `RELEASE`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

RELEASE = "v1.11.0"
TARGET = Path(__file__).resolve().parent.parent / "src" / "kubewright" / "node" / "csi"
SERVICES = ("Identity", "Controller", "Node")

MESSAGES = """
PluginService: Optional services of a driver.
VolumeExpansion: When volumes can be expanded.
AccessMode: How many nodes and pods can use a volume.
ControllerCall: Optional calls of the controller service.
NodeCall: Optional calls of the node service.
UsageUnit: Unit of a `VolumeUsage`.
GetPluginInfoResponse: Name and version of a driver.
ServiceCapability: An optional service of a driver (`PluginService`).
VolumeExpansionCapability: When volumes can be expanded (`VolumeExpansion`).
PluginCapability: One capability: either field is set.
GetPluginCapabilitiesResponse: Capabilities of a driver.
BoolValue: A boolean that can be absent.
Int64Value: An integer that can be absent.
ProbeResponse: Whether a driver is ready; absent means ready.
Timestamp: A time since 1970.
BlockVolume: Access to a volume as a block device.
MountVolume: Access to a volume as a file system.
AccessModeCapability: An `AccessMode`.
VolumeCapability: How a volume is used: `block` or `mount` is set.
CapacityRange: A requested size in bytes; 0 means unlimited.
SnapshotSource: A snapshot that a volume is created from.
VolumeSource: A volume that another one is created from.
VolumeContentSource: What a volume is created from: either field is set.
Topology: A part of the cluster, as labels.
TopologyRequirement: Where a volume has to be accessible, and where preferably.
Volume: A volume.
CreateVolumeRequest: A volume to create; a repeated request has the same name.
CreateVolumeResponse: The created volume.
DeleteVolumeRequest: A volume to delete.
ControllerPublishVolumeRequest: A volume to attach to a node.
ControllerPublishVolumeResponse: What the node needs to use the volume.
ControllerUnpublishVolumeRequest: A volume to detach from a node.
ValidateVolumeCapabilitiesRequest: Capabilities to check for a volume.
ConfirmedCapabilities: Capabilities that a volume has.
ValidateVolumeCapabilitiesResponse: `confirmed` is set if all capabilities are supported.
VolumeCondition: Whether a volume is damaged.
VolumeStatus: Nodes that a volume is attached to, and its condition.
ListVolumesRequest: A page of volumes.
VolumeEntry: A volume in a list.
ListVolumesResponse: A page of volumes, and the token of the next one.
ControllerGetVolumeRequest: A volume to read.
ControllerGetVolumeResponse: A volume and its status.
ControllerModifyVolumeRequest: Parameters to change.
GetCapacityRequest: What capacity is needed for.
GetCapacityResponse: Available bytes, and the limits of one volume.
ControllerCapability: A call that the controller service implements (`ControllerCall`).
ControllerServiceCapability: One capability of the controller service.
ControllerGetCapabilitiesResponse: Capabilities of the controller service.
Snapshot: A snapshot of a volume.
CreateSnapshotRequest: A snapshot to create; a repeated request has the same name.
CreateSnapshotResponse: The created snapshot.
DeleteSnapshotRequest: A snapshot to delete.
ListSnapshotsRequest: A page of snapshots, of one volume or one snapshot if set.
SnapshotEntry: A snapshot in a list.
ListSnapshotsResponse: A page of snapshots, and the token of the next one.
ControllerExpandVolumeRequest: A volume to expand.
ControllerExpandVolumeResponse: The new size, and whether the node has to expand the file system.
NodeStageVolumeRequest: A volume to prepare on a node, once for all pods.
NodeUnstageVolumeRequest: A volume that no pod of a node uses any more.
NodePublishVolumeRequest: A volume to mount at the path of a pod.
NodeUnpublishVolumeRequest: A volume to unmount from the path of a pod.
NodeGetVolumeStatsRequest: A mounted volume.
VolumeUsage: Usage in bytes or inodes (`UsageUnit`).
NodeGetVolumeStatsResponse: Usage and condition of a volume.
NodeCapability: A call that the node service implements (`NodeCall`).
NodeServiceCapability: One capability of the node service.
NodeGetCapabilitiesResponse: Capabilities of the node service.
NodeGetInfoResponse: The name of the node for the driver, and its limits.
NodeExpandVolumeRequest: A volume whose file system is to be expanded.
NodeExpandVolumeResponse: The new size.
"""
"""Classes with their docstrings."""

NAMES = {
    "PluginCapability.Service.Type": "PluginService",
    "PluginCapability.VolumeExpansion.Type": "VolumeExpansion",
    "VolumeCapability.AccessMode.Mode": "AccessMode",
    "ControllerServiceCapability.RPC.Type": "ControllerCall",
    "NodeServiceCapability.RPC.Type": "NodeCall",
    "VolumeUsage.Unit": "UsageUnit",
    "PluginCapability.Service": "ServiceCapability",
    "PluginCapability.VolumeExpansion": "VolumeExpansionCapability",
    "google.protobuf.BoolValue": "BoolValue",
    "google.protobuf.Int64Value": "Int64Value",
    "google.protobuf.Timestamp": "Timestamp",
    "VolumeCapability.BlockVolume": "BlockVolume",
    "VolumeCapability.MountVolume": "MountVolume",
    "VolumeCapability.AccessMode": "AccessModeCapability",
    "VolumeContentSource.SnapshotSource": "SnapshotSource",
    "VolumeContentSource.VolumeSource": "VolumeSource",
    "ValidateVolumeCapabilitiesResponse.Confirmed": "ConfirmedCapabilities",
    "ListVolumesResponse.VolumeStatus": "VolumeStatus",
    "ControllerGetVolumeResponse.VolumeStatus": "VolumeStatus",
    "ListVolumesResponse.Entry": "VolumeEntry",
    "ControllerServiceCapability.RPC": "ControllerCapability",
    "ListSnapshotsResponse.Entry": "SnapshotEntry",
    "NodeServiceCapability.RPC": "NodeCapability",
}
"""Classes of nested messages, by the names in the specification."""

WELL_KNOWN = """
message google.protobuf.BoolValue { bool value = 1; }
message google.protobuf.Int64Value { int64 value = 1; }
message google.protobuf.Timestamp { int64 seconds = 1; int32 nanos = 2; }
"""
SCALARS = {"string": "str", "bool": "bool", "int32": "int", "int64": "int"}
ZEROS = {"str": '""', "bool": "False", "int": "0"}

HEADER = '''"""Messages of the Container Storage Interface, version {version}.

Nested messages have names of their own: `MountVolume` is `VolumeCapability.MountVolume` of the specification.
Requests and responses without fields are `Empty`.

Written by tools/generate_csi_messages.py; change that instead.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from kubewright.node.messages import Message
'''
SERVICES_HEADER = '''"""Services of the Container Storage Interface: their calls, by the name of the service.

Written by tools/generate_csi_messages.py; change that instead.
"""

from __future__ import annotations

from typing import Final

from kubewright.node.messages import Empty
from kubewright.node.rpc import Method, Service

from . import messages as m
'''

_token = re.compile(r'"[^"]*"|[\w.]+|\S')


class Field(NamedTuple):
    """A field of a message: its label is `repeated`, `map` or empty."""

    name: str
    type: str
    number: int
    label: str


class Definitions:
    """The messages, enumerations and services of a proto file, by their full names."""

    def __init__(self, text: str) -> None:
        self._tokens = _token.findall(re.sub(r"//[^\n]*", "", text))
        self.messages: dict[str, list[Field]] = {}
        self.enums: dict[str, list[tuple[str, int]]] = {}
        self.services: dict[str, list[tuple[str, str, str]]] = {}
        while self._tokens:
            self._statement("")

    def _take(self) -> str:
        return self._tokens.pop(0)

    def _skip(self, end: str) -> list[str]:
        """Return the tokens up to `end`, without it; braces and brackets are balanced."""
        skipped: list[str] = []
        depth = 0
        while depth or self._tokens[0] != end:
            token = self._take()
            depth += (token in "{[") - (token in "}]")
            skipped.append(token)
        self._take()
        return skipped

    def _statement(self, parent: str) -> None:
        keyword = self._take()
        if keyword in ("message", "enum", "service"):
            name = f"{parent}.{self._take()}".removeprefix(".")
            self._take()
            getattr(self, f"_{keyword}")(name)
        elif keyword == "extend":
            self._skip("{")
            self._skip("}")
        elif keyword != ";":
            self._skip(";")

    def _message(self, name: str) -> None:
        fields = self.messages.setdefault(name, [])
        while (keyword := self._take()) != "}":
            if keyword in ("message", "enum"):
                self._tokens.insert(0, keyword)
                self._statement(name)
            elif keyword in ("reserved", "option"):
                self._skip(";")
            elif keyword == "oneof":
                self._skip("{")
                self._tokens.remove("}")  # its fields are fields of the message
            else:
                fields.append(self._field(keyword))

    def _field(self, first: str) -> Field:
        label, type_ = "", first
        if first == "repeated":
            label, type_ = first, self._take()
        elif first == "map":
            label, type_ = first, self._skip(">")[-1]
        name, _, number = self._take(), self._take(), int(self._take())
        self._skip(";")
        return Field(name, type_, number, label)

    def _enum(self, name: str) -> None:
        values = self.enums.setdefault(name, [])
        while (value := self._take()) != "}":
            if value == "option":
                self._skip(";")
                continue
            self._take()
            values.append((value, int(self._take())))
            self._skip(";")

    def _service(self, name: str) -> None:
        calls = self.services.setdefault(name, [])
        while (keyword := self._take()) != "}":
            if keyword == "rpc":
                call = self._skip("(")[0]
                request = self._skip(")")[0]
                self._skip("(")
                response = self._skip(")")[0]
                calls.append((call, request, response))
                if self._tokens[0] == "{":
                    self._take()
                    self._skip("}")
            elif keyword == "option":
                self._skip(";")


class Writer:
    """Writes the Python modules."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._paths = {name: path for path, name in reversed(NAMES.items())}

    def messages(self) -> str:
        """Return the module of the messages."""
        parts = [HEADER.format(version=RELEASE.removeprefix("v").removesuffix(".0"))]
        for line in MESSAGES.strip().splitlines():
            name, _, text = line.partition(": ")
            path = self._paths.get(name, name)
            values = self._definitions.enums.get(path)
            base = "Message" if values is None else "IntEnum"
            lines = [f'class {name}({base}):\n    """{text}"""\n']
            if values is not None:
                lines += [f"    {value} = {number}" for value, number in values if number]
            else:
                lines += [self._line(path, each) for each in self._definitions.messages[path]]
            parts.append("\n\n" + "\n".join(lines).rstrip("\n") + "\n")
        return "".join(parts)

    def _line(self, message: str, field: Field) -> str:
        type_ = SCALARS.get(field.type) or self._resolve(message, field.type)
        zero = ZEROS.get(type_, "None")
        if field.label == "repeated":
            type_, zero = f"list[{type_}]", "[]"
        elif field.label == "map":
            type_, zero = f"dict[str, {type_}]", "{}"
        elif zero == "None":
            type_ = f"{type_} | None"
        return f"    {field.name}: Annotated[{type_}, {field.number}] = {zero}"

    def _resolve(self, message: str, type_: str) -> str:
        """Return the class of a type that a message refers to, from the innermost scope outwards."""
        scope, type_ = message.split("."), type_.removeprefix(".")
        while True:
            path = ".".join([*scope, type_])
            if path in self._definitions.enums:
                return "int"
            if path in self._definitions.messages:
                return NAMES.get(path, path)
            scope.pop()

    def services(self) -> str:
        """Return the module of the services."""
        lines = [SERVICES_HEADER]
        for service in SERVICES:
            calls = []
            for call, *messages in self._definitions.services[service]:
                calls.append(re.sub(r"(?<!^)(?=[A-Z])", "_", call).upper())
                classes = [f"m.{each}" if self._definitions.messages[each] else "Empty" for each in messages]
                lines.append(f'{calls[-1]}: Final = Method("{call}", {", ".join(classes)})')
            lines.append(f'{service.upper()}: Final = Service("csi.v1.{service}", {", ".join(calls)})\n')
        return "\n".join(lines)


def formatted(text: str) -> str:
    """Return a module as ruff formats it."""
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet"]
    command = [*ruff, "--stdin-filename", str(TARGET / "messages.py"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Write or check the modules."""
    arguments = [each for each in sys.argv[1:] if each != "--check"]
    if len(arguments) != 1:
        raise SystemExit("usage: generate_csi_messages.py CSI_SPECIFICATION [--check]")
    command = ["git", "-C", arguments[0], "show", f"{RELEASE}:csi.proto"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    writer = Writer(Definitions(text + WELL_KNOWN))
    outdated = []
    for name, module in (("messages.py", writer.messages()), ("services.py", writer.services())):
        path, module = TARGET / name, formatted(module)
        if path.read_text() != module:
            outdated.append(name)
            if "--check" not in sys.argv:
                path.write_text(module)
    if "--check" in sys.argv and outdated:
        print(f"{', '.join(outdated)}: not up to date; run python tools/generate_csi_messages.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
