"""Sharding: several replicas of an operator, each of which reconciles a part of the objects.

    kubewright run shop.operator:operator --shards

Objects belong to partitions, by a hash of namespace and name, and partitions to replicas. Each replica has a
Lease, which it renews; another Lease has the map from partitions to replicas:

- `shard_map`: `ShardMap`, the map and how it is balanced
- `members`: `MemberLeases`, the Leases of the replicas, and who has stopped renewing
- `shard_member`: `ShardMember`, which joins, takes and hands over partitions

A partition has one owner at any time. It changes in two ways only: the owner itself hands it over, after its
reconciles of the partition have ended; or another replica takes it after the Lease of the owner expired and
was deleted. A replica stops its writes before its Lease can expire, and a deleted Lease cannot be renewed.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
