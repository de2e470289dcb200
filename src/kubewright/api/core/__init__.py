"""Built-in types of the `core` group."""
