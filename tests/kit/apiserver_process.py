"""The embedded API server as people run it: a process with TLS and SQLite, which tests may end in any way."""

import os
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from kit.agent_process import COMMAND
from kit.ports import free_port
from kit.waiting import wait_for

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PATIENCE: Final = 30.0


class ApiServerProcess:
    """Its port stays the same over restarts. What it says is in `log`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.data = folder / "data"
        self.log = folder / "apiserver.log"
        self.port = free_port()
        self._command = [*COMMAND, "apiserver", "--data-dir", str(self.data), "--port", str(self.port), *flags]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> float:
        """-> the seconds after which it said that it is ready"""
        began = time.perf_counter()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_for(self.is_ready, seconds=_PATIENCE, otherwise=self.told)
        return time.perf_counter() - began

    def is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.told()
        try:
            with self.connected() as connection:
                connection.sendall(request(b"GET", "/readyz"))
                return b" 200 " in connection.recv(200)
        except (OSError, ValueError):
            return False  # also while its keys are only being made

    def kill(self) -> None:
        """It ends without a chance to do anything about it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """It ends in good order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(_PATIENCE) == 0, self.told()

    def told(self) -> str:
        return self.log.read_text(errors="replace")[-6000:] if self.log.exists() else ""

    # --- as a client

    def tls(self) -> ssl.SSLContext:
        """Of the administrator."""
        pki = self.data / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        return context

    def connected(self, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return (context or self.tls()).wrap_socket(plain, server_hostname="127.0.0.1")

    # --- what it takes

    def cpu(self) -> float:
        """Seconds of it that all threads have used since the start."""
        return cpu_of(self.pid)

    def rss(self) -> float:
        """Resident memory, in MiB."""
        return rss_of(self.pid)

    def peak(self) -> float:
        """The most that it ever was."""
        return rss_of(self.pid, "VmHWM")


def request(method: bytes, path: str, body: bytes = b"", kind: bytes = b"application/json") -> bytes:
    head = b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n" % (
        method,
        path.encode(),
    )
    if body:
        head += b"Content-Type: %s\r\nContent-Length: %d\r\n" % (kind, len(body))
    return head + b"\r\n" + body


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_of(pid: int, which: str = "VmRSS") -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{which}:"))


def plain_pod(name: str, **spec: Any) -> dict[str, Any]:
    """About what `kubectl apply` sends for a small web server."""
    container = {
        "name": "web",
        "image": "registry.example/web:1.27",
        "command": ["/bin/web"],
        "args": ["--port=8080", "--verbose"],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "MODE", "value": "production"}, {"name": "ZONE", "value": "a"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    }
    metadata = {"name": name, "labels": {"app": "web", "tier": "front"}, "annotations": {"about": "a measurement"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
