"""Text to an expression tree.

- `ast`: the expression tree: created by the parser, annotated by the checker, read by the compiler
- `lexer`: text to tokens
- `macros`: calls that the parser rewrites into comprehensions and presence tests
- `parser`: tokens to an expression tree
"""
