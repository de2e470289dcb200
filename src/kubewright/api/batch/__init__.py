"""Built-in types of the `batch` group."""
