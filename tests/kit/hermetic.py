"""Tests run beside a real node without touching it, and without it being in their way.

Its folders are shut to every Python of a test run, the home folder is another one, and its ports are held: a test that
needs one of them fails here as it would there.
"""

import os
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from kit.keep_off import sitecustomize as watch

PORTS: Final = (6443, 10248, 10250, 10255)
_GUARD: Final = Path(watch.__file__).parent
_FOLDERS: Final = (
    "/etc/cni",
    "/etc/kubernetes",
    "/run/pykubelet",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/lib/pykubelet",
    "/var/log/containers",
    "/var/log/pods",
    "/var/run/pykubelet",
)
_IN_HOME: Final = (".kube", ".local/share/kubelet", ".local/share/pykubelet")


class Hermitage:
    """One for each process that runs tests; all of it is undone with `close`."""

    def __init__(self) -> None:
        self._before = dict(os.environ)
        self._folder = Path(tempfile.mkdtemp(prefix="pykubelet-tests-"))
        self._folder.chmod(0o711)
        self._report = self._folder / "trespasses"
        self._report.touch()
        self._report.chmod(0o622)
        self._heard = 0
        self._held: list[socket.socket] = []
        os.environ[watch.REPORT] = str(self._report)
        if watch.FOLDERS not in self._before:  # else it runs in a worker, which is kept off them since its start
            folders = (*_FOLDERS, *(str(Path.home() / name) for name in _IN_HOME))
            os.environ[watch.FOLDERS] = ":".join(folders)
            os.environ["PYTHONPATH"] = ":".join(filter(None, (str(_GUARD), self._before.get("PYTHONPATH"))))
            watch.keep_off()
        os.environ["HOME"] = str(self._folder / "home")
        (self._folder / "home").mkdir()
        for name in ("KUBECONFIG", "XDG_DATA_HOME"):
            os.environ.pop(name, None)

    def hold_ports(self) -> None:
        """Those that are free: the others are held by somebody else, which is as good."""
        for port in PORTS:
            with suppress(OSError):
                self._held.append(socket.create_server(("", port)))

    def trespasses(self) -> list[str]:
        """Those that nobody has heard of yet."""
        if self._report.stat().st_size == self._heard:
            return []
        with self._report.open() as told:
            told.seek(self._heard)
            lines = told.read()
        self._heard += len(lines.encode())
        return lines.splitlines()

    def close(self) -> None:
        for each in self._held:
            each.close()
        os.environ.clear()
        os.environ.update(self._before)
        shutil.rmtree(self._folder, ignore_errors=True)
