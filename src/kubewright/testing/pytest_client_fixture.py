"""The fixture `client`, apart from the others because pytest plug-ins for web frameworks have one as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kubewright.client import Client

    from .server import TestServer


@pytest.fixture
def client(control_plane: TestServer) -> Client:
    """A client of `control_plane` with administrator permissions."""
    return control_plane.client()
