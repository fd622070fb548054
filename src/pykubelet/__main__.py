"""`python -m pykubelet`."""

from pykubelet.cli import main

main(prog_name="pykubelet")
