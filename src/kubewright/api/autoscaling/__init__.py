"""Built-in types of the `autoscaling` group."""
