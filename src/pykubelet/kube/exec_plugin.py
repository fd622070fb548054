"""Credentials from a program that the kubeconfig names (client.authentication.k8s.io), as cloud providers have them.

It runs when there are no credentials yet, when they have expired, and when the server says 401; never twice at once.
"""

import asyncio
import base64
import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from pykubelet.api import codec
from pykubelet.api.struct import Struct, Time
from pykubelet.kube.errors import CredentialsError, KubeconfigError
from pykubelet.kube.kubeconfig import ClientConfig, ExecConfig
from pykubelet.kube.tls import Pem
from pykubelet.web.key_pairs import KeyPair

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_WEB_TOKEN: Final = re.compile(r"eyJ[\w-]+\.[\w.-]+")
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\u00a0-\U0010ffff]+")


class ExecCredentialStatus(Struct, frozen=True):
    expiration_timestamp: Time | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""

    def __repr__(self) -> str:
        return f"ExecCredentialStatus({', '.join(codec.to_builtins(self))})"

    @property
    def key_pair(self) -> KeyPair | None:
        if not self.client_certificate_data:
            return None
        return KeyPair(self.client_certificate_data.encode(), self.client_key_data.encode())


class ExecCredential(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    status: ExecCredentialStatus | None = None


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ExecPlugin:
    """The program and what it last said."""

    def __init__(
        self,
        plugin: ExecConfig,
        config: ClientConfig,
        authority: Pem,
        *,
        timeout: float = 60.0,
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        _check(plugin, config.origin)
        self._plugin = plugin
        self._config = config
        self._authority = authority
        self._timeout = timeout
        self._environ = environ
        self._now = now
        self._running = asyncio.Lock()
        self._last: ExecCredentialStatus | None = None

    async def credential(self, *, other_than: ExecCredentialStatus | None = None) -> ExecCredentialStatus:
        """What the program said, which is asked again if that has expired or is the one that the server refused."""
        async with self._running:
            last = self._last
            if last is None or last is other_than or self._is_expired(last):
                last = self._last = await self._ask()
            return last

    def _is_expired(self, status: ExecCredentialStatus) -> bool:
        return status.expiration_timestamp is not None and status.expiration_timestamp <= self._now()

    async def _ask(self) -> ExecCredentialStatus:
        command = self._plugin.command
        output = await self._run()
        try:
            answer = codec.decode(ExecCredential, output)
        except codec.DecodeError as error:
            raise CredentialsError(
                f"the exec plug-in {command} printed something else than an ExecCredential: {error}"
            ) from None
        if answer.api_version != self._plugin.api_version or answer.kind != "ExecCredential":
            raise CredentialsError(
                f"the exec plug-in {command} printed a {answer.api_version[:80]} {answer.kind[:80]}, "
                f"but the kubeconfig wants {self._plugin.api_version} ExecCredential; change its apiVersion"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
            raise CredentialsError(f"the exec plug-in {command} printed neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise CredentialsError(f"the exec plug-in {command} printed a certificate without its key, or a key alone")
        return status

    async def _run(self) -> bytes:
        command, program = self._plugin.command, None
        try:
            async with asyncio.timeout(self._timeout):
                program = await asyncio.create_subprocess_exec(
                    command,
                    *self._plugin.args,
                    env=self._environment(),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,  # so that a program that forks can be ended whole
                )
                output, complaints = await program.communicate()
        except TimeoutError:
            raise CredentialsError(f"the exec plug-in {command} did not finish within {self._timeout:g} s") from None
        except OSError as error:
            raise CredentialsError(
                f"the exec plug-in {command} cannot be run: {error.strerror}{self._hint()}"
            ) from None
        finally:
            if program is not None:
                await _end(program)
        if program.returncode:
            raise CredentialsError(
                f"the exec plug-in {command} ended with code {program.returncode}{self._last_words(complaints)}"
            )
        return output

    def _environment(self) -> dict[str, str]:
        return {
            **self._environ,
            **{each.name: each.value for each in self._plugin.env},
            "KUBERNETES_EXEC_INFO": codec.encode(self._info()).decode(),
        }

    def _info(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        return {"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}

    def _cluster_info(self) -> dict[str, Any]:
        cluster = self._config.cluster
        facts = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(self._authority.read()).decode() if self._authority else "",
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
            "config": cluster.exec_config,
        }
        return {name: fact for name, fact in facts.items() if fact}

    def _hint(self) -> str:
        hint = _UNPRINTABLE.sub(" ", self._plugin.install_hint).strip()
        return f". {hint}" if hint else ""

    def _last_words(self, complaints: bytes) -> str:
        """The program's last line of complaint, without what it was told in confidence."""
        lines = complaints.decode(errors="replace").strip().splitlines()
        text = _WEB_TOKEN.sub("[hidden]", _UNPRINTABLE.sub(" ", lines[-1]).strip()[:300]) if lines else ""
        for variable in self._plugin.env:
            if len(variable.value) >= 4:
                text = text.replace(variable.value, "[hidden]")
        return f": {text}" if text else ""


def _check(plugin: ExecConfig, origin: str) -> None:
    if not plugin.command:
        raise KubeconfigError(f"{origin}: exec has no command")
    if plugin.api_version not in _VERSIONS:
        raise KubeconfigError(
            f'{origin}: exec has apiVersion "{plugin.api_version}", not one of {", ".join(_VERSIONS)}'
        )
    if plugin.interactive_mode == "Always":
        raise KubeconfigError(
            f"{origin}: exec has interactiveMode Always, but nobody sits at a node agent's terminal; "
            "use Never or IfAvailable, or another way to log in"
        )
    if plugin.interactive_mode not in ("", "Never", "IfAvailable"):
        raise KubeconfigError(
            f'{origin}: exec has interactiveMode "{plugin.interactive_mode}"; use Never or IfAvailable'
        )


async def _end(program: asyncio.subprocess.Process) -> None:
    """Nothing of the program is left when it took too long, or when the caller was cancelled while it ran."""
    if program.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        await program.wait()
