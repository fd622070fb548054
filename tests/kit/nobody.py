"""Running something as an ordinary user where the tests run as root."""

import os
import sys
from pathlib import Path

NOBODY = 65534


def as_nobody() -> list[str]:
    """What to put before a command: in a mount namespace in which nobody can read the interpreter and what is imported,
    even if those live in root's home."""
    home = str(Path(os.path.realpath(sys.executable)).parents[1])
    script = f"""
    place=$(mktemp -d) && mount --bind {home} "$place" || exit 1
    if [ "$(stat -c %a /root)" != 755 ]; then mount -t tmpfs -o mode=755 tmpfs /root; fi
    mkdir -p {home} && mount --bind "$place" {home} && umount "$place" && rmdir "$place"
    exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "$@"
    """
    return ["unshare", "--mount", "sh", "-c", script, "sh"]
