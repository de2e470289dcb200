"""The client: everything that talks to an API server stands on this.

    async with Client.connect() as client:               # finds the cluster as kubectl does
        web = await client.get(Deployment, "web", namespace="shop")
        web.spec.replicas = 3
        await client.update(web)                         # the difference, guarded by resourceVersion
        async for pod in client.list(Pod, labels="app=web"):  # page by page; `await` it for the whole
            print(pod.metadata.name)

In layers, lowest first; each works without those above it:

- `kubeconfig`, `config`: where the server is; `credentials`, `exec_plugin`, `oidc`: who we are
- `transport`: the narrow interface to a server; `http`: over the network. In one process with the server:
  `kubewright.apiserver.in_process`
- `rest`: one request with its retries, rate limit, hooks, metrics and errors
- `discovery`, `mapper`: what the server has; `kinds`: how a kind is named
- `client`: `Client` (`reads`, `writes`, `streams`); `raw`: lists and watches as bytes, for caches
- `sync`: the same for scripts without a loop

An object that is written is brought up to date from the server's answer and returned; a dry run returns
another object and leaves yours alone.
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
