"""One HTTP request to an API server: rate limit, retries, hooks, metrics and errors.

- `call_spans`: `CallPublisher`: publishes spans of the requests of a client, with the reconcile that sends
  them
- `expected_object`: `ExpectedObject`: the object that the response to a write must contain
- `metrics`: Prometheus metrics of the client, with the names of client-go
- `rate_limit`: `TokenBucket`: client-side rate limit with a burst
- `request`: `APIRequest`: one request to the API server, and the hooks and interceptors that receive it
- `rest_client`: `RESTClient`: send requests with rate limit, hooks, retries, fresh credentials, metrics and
  typed errors
- `retry_policy`: `RetryPolicy`: how often and after which delay a request is repeated
"""
