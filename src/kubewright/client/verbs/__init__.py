"""The verbs of a client, grouped by what they do; `Client` inherits all of them."""
