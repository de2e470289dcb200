"""`python -m tests.conformance`."""

from tests.conformance.cli import main

main(prog_name="python -m tests.conformance")
