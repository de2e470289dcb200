"""Tells `Live` which objects are about to change."""

from __future__ import annotations

from kubewright.apiserver.admission import AdmissionAttributes, AdmissionPlugin

from .live import Live


class NoticeWrites(AdmissionPlugin):
    """Sees every write and has no opinion about any."""

    name = "NoticeWrites"
    mutating = True

    def __init__(self, live: Live) -> None:
        self._live = live

    def handles(self, request: AdmissionAttributes) -> bool:
        """Take notice; there is nothing else to do."""
        self._live.notice(request)
        return False
