"""Reports of an exploration: what was explored, and each violation as a timeline.

- `model`: `ExplorationReport`, `ViolationReport`, `TimelineEntry`, and their JSON form
- `run_report`: `describe_run`, the report of one run
- `timeline`: the timeline of a trace: what was true, what the operator saw, what it wrote
- `owner_graph`: the owner graph of a state as a tree, and the differences of two of them
- `exploration_report`: the report of an exploration
- `text`: plain text with rich
- `html`: one self-contained page
- `junit`, `sarif`: XML and JSON for continuous integration
"""
