"""`python -m kubewright.cli`."""

from . import main

main()
