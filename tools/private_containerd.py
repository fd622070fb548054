"""Bring up a private containerd for a demonstration; Ctrl-C takes it away with all that it made.

sudo .venv/bin/python tools/private_containerd.py
pykubelet run --container-runtime-endpoint unix:///tmp/pkcd-.../containerd.sock ...
"""

import signal
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.containerd import missing, private_containerd


def main() -> int:
    if lacking := missing():
        print(lacking, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with private_containerd() as containerd, suppress(KeyboardInterrupt):
        print(f"{containerd.endpoint}\nimages: busybox:1.36; docker.io is {containerd.registry.address}", flush=True)
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
