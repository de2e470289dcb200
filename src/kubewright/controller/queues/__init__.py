"""Work queues and rate limiters.

- `queue`: work queue with deduplication, priorities and delays; a key is processed by one worker at a time
- `queue_metrics`: metrics of work queues, with the names of client-go
- `rate_limiters`: the delay before a failed key is retried
"""
