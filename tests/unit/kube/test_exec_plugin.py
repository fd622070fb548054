import asyncio
import base64
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kit.certificates import Authority
from pykubelet.kube.errors import CredentialsError, KubeconfigError
from pykubelet.kube.exec_plugin import ExecPlugin
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, ExecConfig, ExecEnvVar, NamedExtension, User
from pykubelet.kube.tls import Pem

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
NO_CA = Pem("", "", "")


class Program:
    """A plug-in on disk. It counts its runs, keeps what it was told, and prints what it is told to."""

    def __init__(self, folder: Path, *, before: str = "") -> None:
        self.path = folder / "login"
        self.answer = folder / "answer"
        self.told = folder / "told"
        self.runs = folder / "runs"
        self.path.write_text(
            f"#!{sys.executable} -IS\n"
            "import os, sys\n"
            f"open({str(self.runs)!r}, 'a').write('x')\n"
            f"open({str(self.told)!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
            f"{before}\n"
            f"sys.stdout.write(open({str(self.answer)!r}).read())\n"
        )
        self.path.chmod(0o755)

    def says(self, version: str = V1, **status: Any) -> None:
        self.answer.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))

    @property
    def count(self) -> int:
        return len(self.runs.read_text()) if self.runs.exists() else 0

    def config(self, version: str = V1, **fields: Any) -> ExecConfig:
        return ExecConfig(api_version=version, command=str(self.path), **fields)


def plugin(config: ExecConfig, cluster: Cluster | None = None, authority: Pem = NO_CA, **options: Any) -> ExecPlugin:
    client = ClientConfig(cluster or Cluster(server="https://s"), User(exec=config), origin="file")
    return ExecPlugin(config, client, authority, **options)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_token_comes_from_the_program_once(program: Program, version: str) -> None:
    program.says(version, token="t1")
    asked = plugin(program.config(version))
    assert (await asked.credential()).token == "t1"
    assert (await asked.credential()).token == "t1"
    assert program.count == 1


async def test_many_who_ask_at_once_share_one_run(program: Program) -> None:
    program.says(token="t1")
    asked = plugin(program.config())
    answers = await asyncio.gather(*(asked.credential() for _ in range(20)))
    assert {each.token for each in answers} == {"t1"}
    assert program.count == 1


async def test_the_program_runs_again_when_its_answer_expires(program: Program) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    clock = [now]
    program.says(token="t1", expirationTimestamp="2026-01-01T00:10:00Z")
    asked = plugin(program.config(), now=lambda: clock[0])
    assert (await asked.credential()).token == "t1"
    program.says(token="t2", expirationTimestamp="2026-01-01T00:20:00Z")
    clock[0] = now + timedelta(minutes=9, seconds=59)
    assert (await asked.credential()).token == "t1"
    clock[0] = now + timedelta(minutes=10)
    assert (await asked.credential()).token == "t2"


async def test_a_refused_answer_is_asked_for_again_but_only_once(program: Program) -> None:
    program.says(token="t1")
    asked = plugin(program.config())
    refused = await asked.credential()
    program.says(token="t2")
    answers = await asyncio.gather(*(asked.credential(other_than=refused) for _ in range(5)))
    assert {each.token for each in answers} == {"t2"}
    assert program.count == 2


async def test_a_certificate_may_come_instead_of_a_token(program: Program) -> None:
    issued = Authority().issue("alice")
    program.says(clientCertificateData=issued.certificate.decode(), clientKeyData=issued.key.decode())
    status = await plugin(program.config()).credential()
    assert status.key_pair is not None
    assert status.key_pair.certificate == issued.certificate
    assert "PRIVATE" not in f"{status!r} {status.key_pair!r}"


async def test_the_program_learns_that_nobody_is_there_to_answer_it(program: Program) -> None:
    program.says(token="t")
    await plugin(program.config()).credential()
    told = json.loads(program.told.read_text())
    assert told == {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}


async def test_the_program_learns_about_the_cluster_if_it_should(program: Program) -> None:
    program.says(token="t")
    cluster = Cluster(
        server="https://s",
        tls_server_name="name",
        proxy_url="http://p",
        extensions=(NamedExtension(name="client.authentication.k8s.io/exec", extension={"audience": "me"}),),
    )
    authority = Pem(base64.b64encode(b"the CA").decode(), "", "")
    await plugin(program.config(provide_cluster_info=True), cluster, authority).credential()
    assert json.loads(program.told.read_text())["spec"]["cluster"] == {
        "server": "https://s",
        "tls-server-name": "name",
        "proxy-url": "http://p",
        "certificate-authority-data": base64.b64encode(b"the CA").decode(),
        "config": {"audience": "me"},
    }


async def test_arguments_and_environment_reach_the_program(tmp_path: Path) -> None:
    program = Program(tmp_path, before=f"open({str(tmp_path / 'seen')!r}, 'w').write(sys.argv[1] + os.environ['A'])")
    program.says(token="t")
    config = program.config(args=("one",), env=(ExecEnvVar(name="A", value="two"),))
    await plugin(config, environ={"A": "overridden", **os.environ}).credential()
    assert (tmp_path / "seen").read_text() == "onetwo"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("hello s3cret", "printed something else than an ExecCredential"),
        ({"apiVersion": V1BETA1, "kind": "ExecCredential", "status": {"token": "s3cret"}}, "change its apiVersion"),
        ({"apiVersion": V1, "kind": "ExecCredential"}, "neither a token nor a certificate"),
        ({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": ""}}, "neither a token nor a certificate"),
        ({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": ["s3cret"]}}, "status.token: expected str"),
        ({"apiVersion": V1, "kind": "ExecCredential", "status": {"clientKeyData": "s3cret"}}, "or a key alone"),
    ],
)
async def test_what_is_no_credential_is_told_apart(
    program: Program, answer: str | Mapping[str, object], complaint: str
) -> None:
    program.answer.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    with pytest.raises(CredentialsError, match=complaint) as caught:
        await plugin(program.config()).credential()
    assert str(program.path) in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_missing_program_comes_with_the_hint_how_to_install_it(tmp_path: Path) -> None:
    config = ExecConfig(api_version=V1, command=str(tmp_path / "none"), install_hint="Run\x1b[1m: get login")
    with pytest.raises(CredentialsError) as caught:
        await plugin(config).credential()
    assert str(caught.value).endswith("none cannot be run: No such file or directory. Run [1m: get login")


async def test_a_failing_program_is_quoted_without_its_secrets(tmp_path: Path) -> None:
    words = "'first\\nno entry for pass-w0rd and eyJhbGciOi.eyJzdWIiOi.c2ln here'"
    program = Program(tmp_path, before=f"sys.exit({words})")
    with pytest.raises(CredentialsError) as caught:
        await plugin(program.config(env=(ExecEnvVar(name="P", value="pass-w0rd"),))).credential()
    assert str(caught.value).endswith("ended with code 1: no entry for [hidden] and [hidden] here")


async def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    program = Program(tmp_path, before=f"open({str(pid)!r}, 'w').write(str(os.getpid())); import time; time.sleep(600)")
    with pytest.raises(CredentialsError, match="did not finish within 2 s"):
        await plugin(program.config(), timeout=2).credential()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_a_program_ends_with_the_request_that_wanted_it(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    program = Program(
        tmp_path, before=f"open({str(started)!r}, 'w').write(str(os.getpid())); import time; time.sleep(600)"
    )
    request = asyncio.create_task(plugin(program.config()).credential())
    pid = int(await asyncio.to_thread(started.read_text))
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"api_version": "client.authentication.k8s.io/v1alpha1"}, "not one of client.authentication.k8s.io/v1,"),
        ({"interactive_mode": "Always"}, "file: exec has interactiveMode Always, but nobody sits"),
        ({"interactive_mode": "Sometimes"}, "use Never or IfAvailable"),
        ({"command": ""}, "exec has no command"),
    ],
)
def test_a_plugin_that_cannot_work_is_refused_at_once(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(KubeconfigError, match=complaint):
        plugin(ExecConfig(**{"api_version": V1, "command": "login", **fields}))


@pytest.mark.parametrize("mode", ["", "Never", "IfAvailable"])
async def test_a_plugin_that_can_do_without_a_person_works(program: Program, mode: str) -> None:
    program.says(token="t")
    assert (await plugin(program.config(interactive_mode=mode)).credential()).token == "t"
