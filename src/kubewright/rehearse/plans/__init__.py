"""Plans: what an operator would do with the objects of a cluster."""
