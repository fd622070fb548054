"""`python -m pykubelet`."""

from pykubelet.cli.main import main

main(prog_name="pykubelet")
