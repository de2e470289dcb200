"""Built-in types of the `policy` group."""
