"""The client of an API server: typed, unstructured and metadata objects, watches, streams, and a sync facade.

    async with Client.connect() as client:                      # finds the cluster as kubectl does
        web = await client.get(Deployment, "web", namespace="shop")
        web.spec.replicas = 3
        await client.update(web)                                # sends the change, with the resource version
        async for pod in client.list(Pod, namespace="shop", labels="app=web"):
            print(pod.metadata.name)

Packages and modules, lowest first:

- `config`: kubeconfig, in-cluster configuration, credentials
- `transport`: the interface to a server, and HTTP; `kubewright.apiserver` has one for the same process
- `rest`: one request with retries, rate limit, hooks, metrics and errors
- `discovery`: resources of a server, and the mapping from kinds to resources
- `listwatch`: pages, watches, and their raw bytes for caches; `streams`: logs, commands, port forwards
- `verbs`: the verbs; `client`: `Client`, all of them; `sync`: `SyncClient`
- `protocols`: `Reader` and `Writer`, to write code against; `arguments`: keyword arguments of the verbs
- `applyset`: sets of objects that are applied, pruned and deleted together; `applyset_inventory`,
  `readiness`; `membership`: which field managers applied an object, and may delete it; `set_writes`: the
  loops that apply and remove the objects of sets, for `ApplySet` and the children of controllers
- `storage_migration`: storing the objects of a CRD in its storage version
- `credential_plugin`: programs that give kubectl credentials (exec plug-ins)
- `kubectl_plugin`: commands of kubectl, with its options, tables and completion
- `kind_types`, `selectors`, `patches`, `wait`, `manifest_files`, `decoding`, `backoff`, `errors`

A written object is updated in place from the response and returned; a dry run returns another object.

- `undecodable_objects`: find and delete stored objects that the API server cannot decode
"""

from kubewright.lazy import attach_stub

__getattr__, __dir__ = attach_stub(__name__)
