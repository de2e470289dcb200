"""Cluster DNS: names of Services, endpoints and pods, as the DNS specification of Kubernetes (1.1.0) says.

    async with Client.connect() as client, ClusterRecords(client) as records:
        server = DNSServer(Resolver(records, domain="cluster.local"), host="127.0.0.1", port=5353)
        await server.start()

Requires the extra `dns` (dnspython), which has the wire format. Modules:

- `records`: what the resolver reads of the cluster, from a cache
- `resolver`: the records of a name and type
- `upstream`: names outside of the cluster domain, from the resolvers of this machine
- `server`: UDP and TCP
- `service`: the Service `kube-dns` of a server outside of the cluster
- `cluster_dns`: `ClusterDNS`, all of them together
"""
