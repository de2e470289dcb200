"""A pizza in two versions and its toppings: several kinds in one group, a deprecated version."""
