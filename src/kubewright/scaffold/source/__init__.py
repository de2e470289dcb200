"""Edits and layout of source files that keep the user's code.

- `merge`: three-way merge of texts by lines, with the result of `git merge-file`
- `python_edits`: add imports and definitions to the source of a Python module, and rewrite its imports
- `python_source`: layout of generated Python code, in the style of `ruff format`
- `toml_edits`: set and rename single keys of a TOML file; comments and formatting are kept
"""
