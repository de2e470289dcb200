"""Values that the server assigns to objects."""

from __future__ import annotations

import uuid

from kubewright.apiserver.resources.objects import new_uid


def test_uids_are_random_version_4_uuids() -> None:
    uids = [new_uid() for _ in range(1000)]

    parsed = [uuid.UUID(uid) for uid in uids]
    assert {(each.version, each.variant) for each in parsed} == {(4, uuid.RFC_4122)}
    assert [str(each) for each in parsed] == uids
    assert len(set(uids)) == 1000
    assert {uid[19] for uid in uids} == set("89ab")
