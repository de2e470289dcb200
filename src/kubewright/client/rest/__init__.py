"""One HTTP request to an API server: rate limit, retries, hooks, metrics and errors."""
