"""Built-in types of the `apps` group."""
