"""Types of expressions.

- `checker`: type checker: assigns every node its type and every call its candidate overloads
- `types`: types for checking, with sizes for cost estimation
- `unify`: type assignability and unification of type parameters
"""
