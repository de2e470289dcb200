"""Streams of commands and ports: what `kubectl exec`, `attach` and `port-forward` connect to.

    async def shell(streams: ProcessStreams) -> int:
        await streams.write_stdout(b"hello\\n")
        return 0

    response = process_response(request, shell)      # of a subresource with `connects=True`

- `contract`: `ProcessStreams`, `ByteStream`: what a handler reads and writes
- `responses`: the response to a request of a client, over WebSocket or SPDY
- `channels`: commands and ports over both protocols; `spdy`: SPDY/3.1 sessions
"""
