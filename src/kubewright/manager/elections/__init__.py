"""Leader election: with a Lease, or coordinated by kube-apiserver.

- `coordinated_election`: coordinated leader election: kube-apiserver chooses the leader among LeaseCandidates
- `leader_election`: leader election among replicas with a Lease
"""
