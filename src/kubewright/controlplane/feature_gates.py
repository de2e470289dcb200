"""Feature gates of kube-apiserver that this server has a feature for, and what they change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubewright.apiserver.server import APIServer

DEFAULT_GATES: Final[Mapping[str, bool]] = {
    "APIServerIdentity": True,
    "CBORServingAndStorage": False,
    "ComponentFlagz": True,
    "ComponentStatusz": True,
    "WatchList": True,
}
"""Gates with an effect, and their defaults in kube-apiserver 1.36.

`APIServerIdentity`: the identity lease; `CBORServingAndStorage`: requests and responses in CBOR (objects are
stored in JSON in any case); `ComponentFlagz`, `ComponentStatusz`: `/flagz` and `/statusz`; `WatchList`:
watches with `sendInitialEvents`.
"""


def apply_gates(server: APIServer, gates: Mapping[str, bool]) -> None:
    """Disable the features of a server whose gates are disabled."""
    server.watch_list = gates["WatchList"]
    if not gates["ComponentFlagz"]:
        server.remove_handler("/flagz")
    if not gates["ComponentStatusz"]:
        server.remove_handler("/statusz")


__all__ = ["DEFAULT_GATES", "apply_gates"]
