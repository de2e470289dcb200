from .shard_map import PARTITIONS as PARTITIONS
from .shard_map import ShardMap as ShardMap
from .shard_map import partition_of as partition_of
from .shard_member import ShardMember as ShardMember

__all__ = ["PARTITIONS", "ShardMap", "ShardMember", "partition_of"]
