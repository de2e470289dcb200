"""Checked expressions to Python closures.

- `calls`: code generation for calls: which generator is responsible
- `code`: compiled code: a function of a frame, with its fixed cost
- `comparisons`: code generation for comparisons and string predicates, specialised by checked types
- `compiler`: a checked expression to Python closures
- `frame`: the state of one evaluation, and the budget that limits it
- `loops`: code generation for comprehensions: a specialised loop per macro
- `overload_calls`: code generation for calls of functions: the overload, its cost and its limits
- `special_forms`: code generation for the operators that are more than functions of their values
"""
