import asyncio
import base64
import json
import logging
import ssl
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from kit.certificates import Authority, Issued, server_context
from kit.loopback import forwarding, serving
from pykubelet.base.errors import PykubeletError
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.errors import CredentialsError, KubeconfigError, Unauthorized, Unreachable, Untrusted
from pykubelet.kube.kubeconfig import AuthProvider, ClientConfig, Cluster, ExecConfig, User

AUTHORITY = Authority()
SERVER = AUTHORITY.issue("server", hosts=["127.0.0.1", "api.test"])
NO_ENVIRONMENT: dict[str, str] = {}


async def who_asks(request: web.BaseRequest) -> web.Response:
    """Says what the server sees of the client."""
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    headers = [[name, value] for name, value in request.headers.items()]
    return web.json_response(
        {
            "certificate": names[0] if names else "",
            "headers": headers,
            "peer": request.transport.get_extra_info("peername")[1],
        }
    )


class Seen:
    def __init__(self, answer: bytes) -> None:
        said = json.loads(answer)
        self.certificate: str = said["certificate"]
        self.peer: int = said["peer"]
        self.headers: list[tuple[str, str]] = [(name, value) for name, value in said["headers"]]

    def all(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each.lower() == name.lower()]

    @property
    def authorization(self) -> str:
        return "".join(self.all("Authorization"))


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def config(port: int, user: User | None = None, *, host: str = "127.0.0.1", **cluster: Any) -> ClientConfig:
    if not {"certificate_authority", "certificate_authority_data", "insecure_skip_tls_verify"} & set(cluster):
        cluster["certificate_authority_data"] = data(AUTHORITY.pem)
    return ClientConfig(Cluster(server=f"https://{host}:{port}", **cluster), user or User(), origin="file")


def credentials(port: int, user: User | None = None, **options: Any) -> Credentials:
    return Credentials(config(port, user, **options), environ=NO_ENVIRONMENT)


async def seen_with(*requests: Credentials) -> list[Seen]:
    answers = []
    for each in requests:
        async with ApiClient(each) as server:
            answers.append(Seen(await server.request("GET", "/")))
    return answers


@asynccontextmanager
async def tls_server(*, issued: Issued = SERVER) -> AsyncIterator[int]:
    async with serving(who_asks, tls=server_context(issued, clients=AUTHORITY)) as port:
        yield port


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with tls_server() as port:
        yield port


# --- headers


async def test_a_token_goes_into_the_authorization_header(port: int) -> None:
    [seen] = await seen_with(credentials(port, User(token="t\n")))
    assert seen.authorization == "Bearer t"


async def test_a_password_goes_into_the_authorization_header(port: int) -> None:
    [seen] = await seen_with(credentials(port, User(username="alice", password="pä:ss")))
    assert base64.b64decode(seen.authorization.removeprefix("Basic ")).decode() == "alice:pä:ss"


async def test_another_user_can_be_acted_as(port: int) -> None:
    user = User(as_="bob", as_uid="7", as_groups=("g1", "g2"), as_user_extra={"Example.com/Scope": ("a", "b")})
    [seen] = await seen_with(credentials(port, user))
    assert seen.all("Impersonate-User") == ["bob"]
    assert seen.all("Impersonate-Uid") == ["7"]
    assert seen.all("Impersonate-Group") == ["g1", "g2"]
    assert seen.all("Impersonate-Extra-example.com%2Fscope") == ["a", "b"]


async def test_nothing_secret_goes_over_plain_http() -> None:
    async with serving(who_asks) as port:
        cluster = Cluster(server=f"http://127.0.0.1:{port}")
        for user in (User(token="t"), User(username="u", password="p"), User(token_file="/none")):
            [seen] = await seen_with(Credentials(ClientConfig(cluster, user), environ=NO_ENVIRONMENT))
            assert seen.authorization == ""


async def test_compression_can_be_declined(port: int) -> None:
    [seen] = await seen_with(credentials(port, disable_compression=True))
    assert seen.all("Accept-Encoding") == ["identity"]


# --- token files


async def test_a_token_file_is_read_again_when_it_changes(port: int, tmp_path: Path) -> None:
    path, clock = tmp_path / "token", [0.0]
    path.write_text("one\n")
    made = Credentials(config(port, User(token_file=str(path))), environ=NO_ENVIRONMENT, clock=lambda: clock[0])
    async with ApiClient(made) as server:
        assert Seen(await server.request("GET", "/")).authorization == "Bearer one"
        path.write_text("two and longer".replace(" ", "-"))
        assert Seen(await server.request("GET", "/")).authorization == "Bearer one"
        clock[0] = 5.0
        assert Seen(await server.request("GET", "/")).authorization == "Bearer two-and-longer"


async def test_the_last_token_goes_on_while_its_file_is_away(
    port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "token", [0.0]
    path.write_text("s3cret")
    made = Credentials(config(port, User(token_file=str(path))), environ=NO_ENVIRONMENT, clock=lambda: clock[0])
    await made.grant()
    path.unlink()
    clock[0] = 10.0
    assert ("Authorization", "Bearer s3cret") in (await made.grant()).headers
    assert "keeping the former token" in caplog.text
    assert "s3cret" not in caplog.text


async def test_the_token_beside_a_token_file_is_for_the_time_without_the_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", [0.0]
    user = User(token_file=str(path), token="first")
    made = Credentials(config(1, user), environ=NO_ENVIRONMENT, clock=lambda: clock[0])
    assert (await made.grant()).headers == (("Authorization", "Bearer first"),)
    path.write_text("second")
    clock[0] = 5.0
    assert (await made.grant()).headers == (("Authorization", "Bearer second"),)


@pytest.mark.parametrize(("content", "complaint"), [(None, "cannot be read: No such file"), (" \n", "is empty")])
async def test_a_token_file_without_a_token_may_work_later(tmp_path: Path, content: str | None, complaint: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CredentialsError, match=complaint):
        await credentials(1, User(token_file=str(path))).grant()


# --- certificates


async def test_a_client_certificate_may_be_data(port: int) -> None:
    alice = AUTHORITY.issue("alice")
    wrapped = data(alice.certificate)[:70] + "\n  " + data(alice.certificate)[70:]
    user = User(client_certificate_data=wrapped, client_key_data=data(alice.key), client_key="/none")
    [seen] = await seen_with(credentials(port, user))
    assert seen.certificate == "alice"


def key_files(folder: Path, issued: Issued) -> User:
    (folder / "client.key").write_bytes(issued.key)
    (folder / "client.crt").write_bytes(issued.certificate)
    return User(client_certificate=str(folder / "client.crt"), client_key=str(folder / "client.key"))


async def test_a_rotated_client_certificate_is_used_from_the_next_request_on(port: int, tmp_path: Path) -> None:
    made = credentials(port, key_files(tmp_path, AUTHORITY.issue("before")))
    async with ApiClient(made) as server:
        first = Seen(await server.request("GET", "/"))
        same = Seen(await server.request("GET", "/"))
        key_files(tmp_path, AUTHORITY.issue("after"))
        rotated = Seen(await server.request("GET", "/"))
    assert (first.certificate, same.certificate, rotated.certificate) == ("before", "before", "after")
    assert first.peer == same.peer != rotated.peer


async def test_one_file_may_hold_certificate_and_key(port: int, tmp_path: Path) -> None:
    alice, both = AUTHORITY.issue("alice"), tmp_path / "kubelet-client-current.pem"
    both.write_bytes(alice.certificate + alice.key)
    [seen] = await seen_with(credentials(port, User(client_certificate=str(both), client_key=str(both))))
    assert seen.certificate == "alice"


async def test_half_a_rotation_keeps_the_former_certificate(
    port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = credentials(port, key_files(tmp_path, AUTHORITY.issue("before")))
    after = AUTHORITY.issue("after")
    async with ApiClient(made) as server:
        await server.request("GET", "/")
        (tmp_path / "client.crt").write_bytes(after.certificate)
        assert Seen(await server.request("GET", "/")).certificate == "before"
        assert Seen(await server.request("GET", "/")).certificate == "before"
        assert caplog.text.count("do not belong together") == 1
        (tmp_path / "client.key").write_bytes(after.key)
        assert Seen(await server.request("GET", "/")).certificate == "after"


async def test_a_rotated_authority_is_trusted_from_the_next_request_on(tmp_path: Path) -> None:
    path, successor = tmp_path / "ca.crt", Authority("successor")
    path.write_bytes(AUTHORITY.pem)
    async with (
        tls_server(issued=successor.issue("server", hosts=["127.0.0.1"])) as port,
        ApiClient(credentials(port, certificate_authority=str(path))) as server,
    ):
        with pytest.raises(Untrusted):
            await server.request("GET", "/")
        path.write_bytes(AUTHORITY.pem + successor.pem)
        await server.request("GET", "/")


def encrypted(issued: Issued) -> bytes:
    key = serialization.load_pem_private_key(issued.key, None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"s3cret")
    )


@pytest.mark.parametrize(
    ("certificate", "key", "complaint"),
    [
        (b"", b"", "cannot be read: they have to be PEM"),
        (SERVER.certificate, b"", "cannot be read: they have to be PEM"),
        (SERVER.certificate, AUTHORITY.issue("other").key, "do not belong together"),
        (SERVER.certificate, encrypted(SERVER), "is encrypted: give one without a passphrase"),
    ],
)
async def test_a_client_certificate_that_cannot_be_used_is_named(
    tmp_path: Path, certificate: bytes, key: bytes, complaint: str
) -> None:
    user = key_files(tmp_path, Issued(certificate, key))
    with pytest.raises(CredentialsError, match=complaint) as caught:
        await credentials(1, user).grant()
    assert user.client_certificate in str(caught.value)


async def test_a_missing_certificate_file_is_named(tmp_path: Path) -> None:
    user = User(client_certificate=str(tmp_path / "none"), client_key=str(tmp_path / "none"))
    with pytest.raises(CredentialsError, match="none cannot be read: No such file"):
        await credentials(1, user).grant()
    with pytest.raises(CredentialsError, match="none cannot be read: No such file"):
        await credentials(1, certificate_authority=str(tmp_path / "none")).grant()


async def test_an_authority_that_is_not_a_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="certificate-authority-data holds no certificate"):
        await credentials(1, certificate_authority_data=data(b"hello")).grant()


# --- whom to trust


async def test_a_server_with_an_unknown_issuer_is_not_trusted(port: int) -> None:
    with pytest.raises(Untrusted, match="set certificate-authority in the kubeconfig to the CA that signed it"):
        await seen_with(credentials(port, certificate_authority_data=data(Authority("other").pem)))


async def test_a_server_with_another_name_is_not_trusted() -> None:
    async with tls_server(issued=AUTHORITY.issue("server", hosts=["api.test"])) as port:
        with pytest.raises(Untrusted, match="set tls-server-name in the kubeconfig"):
            await seen_with(credentials(port))
        [seen] = await seen_with(credentials(port, tls_server_name="api.test"))
        assert seen.headers


async def test_an_expired_server_certificate_says_so() -> None:
    issued = AUTHORITY.issue("server", hosts=["127.0.0.1"], expires=datetime(2020, 1, 1, tzinfo=UTC))
    async with tls_server(issued=issued) as port:
        with pytest.raises(Untrusted, match="it has expired"):
            await seen_with(credentials(port))


async def test_verification_can_be_skipped(port: int) -> None:
    [seen] = await seen_with(credentials(port, insecure_skip_tls_verify=True))
    assert seen.headers


async def test_without_an_authority_the_roots_of_the_machine_count() -> None:
    made = Credentials(ClientConfig(Cluster(server="https://127.0.0.1"), User()), environ=NO_ENVIRONMENT)
    context = (await made.grant()).context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


async def refuse_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that insists on a client certificate and, unlike asyncio's own, says why before it hangs up."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = server_context(SERVER, clients=AUTHORITY, required=True)
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    while True:
        incoming.write(await reader.read(65536))
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
        except ssl.SSLError:
            break
    writer.write(outgoing.read())
    writer.write_eof()
    await reader.read()
    writer.close()


@pytest.mark.parametrize("issuer", [None, Authority("unknown")])
async def test_a_server_that_does_not_accept_our_certificate_says_so(issuer: Authority | None) -> None:
    user = User(token="t")
    if issuer is not None:
        alice = issuer.issue("alice")
        user = User(client_certificate_data=data(alice.certificate), client_key_data=data(alice.key))
    server = await asyncio.start_server(refuse_handshake, "127.0.0.1", 0)
    async with server:
        with pytest.raises(Untrusted, match="the server does not accept our client certificate"):
            await seen_with(credentials(server.sockets[0].getsockname()[1], user))


# --- exec plug-ins


def program(folder: Path, status: dict[str, str]) -> ExecConfig:
    path = folder / "login"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (folder / "answer").write_text(json.dumps(answer))
    path.write_text(f"#!{sys.executable} -IS\nprint(open({str(folder / 'answer')!r}).read())")
    path.chmod(0o755)
    return ExecConfig(api_version="client.authentication.k8s.io/v1", command=str(path))


async def test_a_plugin_gives_a_token_or_a_certificate(port: int, tmp_path: Path) -> None:
    alice = AUTHORITY.issue("alice")
    user = User(exec=program(tmp_path, {"token": "t"}))
    [seen] = await seen_with(credentials(port, user))
    assert (seen.authorization, seen.certificate) == ("Bearer t", "")
    pair = {"clientCertificateData": alice.certificate.decode(), "clientKeyData": alice.key.decode()}
    user = User(exec=program(tmp_path, pair))
    [seen] = await seen_with(credentials(port, user))
    assert (seen.authorization, seen.certificate) == ("", "alice")


async def test_a_plugin_is_not_asked_when_there_are_other_credentials(port: int, tmp_path: Path) -> None:
    plugin = ExecConfig(api_version="client.authentication.k8s.io/v1", command="/none")
    alice = AUTHORITY.issue("alice")
    for user in (
        User(token="t", exec=plugin),
        User(username="u", exec=plugin),
        User(client_certificate_data=data(alice.certificate), client_key_data=data(alice.key), exec=plugin),
    ):
        [seen] = await seen_with(credentials(port, user))
        assert seen.authorization or seen.certificate == "alice"


async def test_a_401_makes_the_plugin_run_again_and_the_request_be_sent_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def picky(request: web.BaseRequest) -> web.Response:
        asked.append(request.headers["Authorization"])
        return web.Response(status=200 if asked[-1] == "Bearer new" else 401, text=await request.text())

    async with serving(picky, tls=server_context(SERVER)) as port:
        made = credentials(port, User(exec=program(tmp_path, {"token": "old"})))
        async with ApiClient(made) as server:
            with pytest.raises(Unauthorized):
                await server.request("GET", "/")
            program(tmp_path, {"token": "new"})
            assert await server.request("POST", "/", body=b"again") == b"again"
    assert asked == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_401_makes_a_token_file_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def picky(request: web.BaseRequest) -> web.Response:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    async with (
        serving(picky, tls=server_context(SERVER)) as port,
        ApiClient(credentials(port, User(token_file=str(path)))) as server,
    ):
        with pytest.raises(Unauthorized):
            await server.request("GET", "/")
        path.write_text("new")
        await server.request("GET", "/")


async def test_what_the_server_has_refused_is_not_sent_twice() -> None:
    asked = 0

    async def refuse(request: web.BaseRequest) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=401)

    async with (
        serving(refuse, tls=server_context(SERVER)) as port,
        ApiClient(credentials(port, User(token="t"))) as server,
    ):
        with pytest.raises(Unauthorized):
            await server.request("GET", "/")
    assert asked == 1


# --- proxies


async def test_the_proxy_of_the_kubeconfig_carries_the_connection(port: int) -> None:
    async with forwarding() as proxy:
        url = f"http://user:s3cret@127.0.0.1:{proxy.port}"
        alice = AUTHORITY.issue("alice")
        user = User(client_certificate_data=data(alice.certificate), client_key_data=data(alice.key), token="t")
        [seen] = await seen_with(credentials(port, user, proxy_url=url, host="api.test"))
    assert seen.certificate == "alice"
    assert seen.all("Proxy-Authorization") == []
    assert proxy.asked == [f"CONNECT api.test:{port}"]
    assert proxy.authorizations == ["Basic dXNlcjpzM2NyZXQ="]


async def test_the_name_in_the_certificate_is_checked_behind_a_proxy_too(port: int) -> None:
    async with forwarding() as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        with pytest.raises(Untrusted, match="tls-server-name"):
            await seen_with(credentials(port, proxy_url=url, host="other.test"))
        [seen] = await seen_with(credentials(port, proxy_url=url, host="other.test", tls_server_name="api.test"))
        assert seen.headers


async def test_the_proxy_of_the_environment_carries_the_connection(port: int) -> None:
    async with forwarding() as proxy:
        environ = {"HTTPS_PROXY": f"127.0.0.1:{proxy.port}"}
        await seen_with(Credentials(config(port, host="api.test"), environ=environ))
        await seen_with(Credentials(config(port), environ=environ))
    assert proxy.asked == [f"CONNECT api.test:{port}"]


async def test_a_plain_server_behind_a_proxy_with_a_password() -> None:
    async with serving(who_asks) as port, forwarding() as proxy:
        cluster = Cluster(server=f"http://api.test:{port}", proxy_url=f"http://u:p@127.0.0.1:{proxy.port}")
        await seen_with(Credentials(ClientConfig(cluster, User()), environ=NO_ENVIRONMENT))
    assert proxy.asked == [f"GET http://api.test:{port}/"]
    assert proxy.authorizations == ["Basic dTpw"]


async def test_a_proxy_that_refuses_or_is_away_is_named(port: int) -> None:
    async with forwarding() as proxy:
        proxy.answer = "407 Who are you"
        url = f"http://user:s3cret@127.0.0.1:{proxy.port}"
        made = credentials(port, proxy_url=url, host="api.test")
        with pytest.raises(Unreachable, match="its proxy refused to connect: 407 Who are you") as caught:
            await seen_with(made)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(Unreachable, match=r"its proxy 127.0.0.1:\d+ cannot be reached"):
        await seen_with(made)


# --- what cannot work


@pytest.mark.parametrize(
    ("user", "cluster", "complaint"),
    [
        (User(token="s3cret", password="s3cret"), {}, "a token and a password; keep one"),
        (User(token="s3cret\nx: y"), {}, "holds characters that a header cannot carry"),
        (User(as_="x\ny"), {}, "an as field holds a character"),
        (User(as_groups=("g",)), {}, "need as, the user to act as"),
        (User(auth_provider=AuthProvider(name="gcp")), {}, 'auth-provider "gcp" is not supported; use exec'),
        (User(client_key_data="c2VjcmV0"), {}, "a client-certificate needs a client-key"),
        (User(client_certificate="/crt"), {}, "a client-certificate needs a client-key"),
        (User(client_certificate="/crt", client_key_data="s3cret!"), {}, "client-key-data is not base64"),
        (User(), {"server": "ftp://x"}, "it is not an http or https URL"),
        (User(), {"server": "https://"}, "it is not an http or https URL"),
        (User(), {"server": "https://x:y:z"}, "it is not a URL"),
        (User(), {"server": "https://u:s3cret@x"}, "a username and a password belong to the user"),
        (User(), {"insecure_skip_tls_verify": True, "certificate_authority": "/ca"}, "contradict each other"),
    ],
)
def test_an_entry_that_cannot_work_is_refused_at_once(user: User, cluster: dict[str, Any], complaint: str) -> None:
    with pytest.raises(KubeconfigError, match=complaint) as caught:
        Credentials(ClientConfig(Cluster(**{"server": "https://x", **cluster}), user, origin="file"))
    assert str(caught.value).startswith("file: ") or "of file" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "user", "url"),
    [
        (Cluster(server="10.0.0.1:8080"), User(), "http://10.0.0.1:8080"),
        (Cluster(server="10.0.0.1:6443", insecure_skip_tls_verify=True), User(), "https://10.0.0.1:6443"),
        (Cluster(server="https://x/k8s/clusters/c-1/?a=b#c"), User(), "https://x/k8s/clusters/c-1"),
    ],
)
def test_the_address_of_the_server_is_made_whole(cluster: Cluster, user: User, url: str) -> None:
    assert ApiClient(Credentials(ClientConfig(cluster, user))).url == url


# --- secrecy


async def test_credentials_appear_in_no_error_log_or_repr(
    port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    alice = AUTHORITY.issue("alice")
    key_line = alice.key.decode().splitlines()[1]
    secrets = ("t0ken-s3cret", "pass-s3cret", base64.b64encode(b"u:pass-s3cret").decode(), key_line, data(alice.key))
    certificate, key = data(alice.certificate), data(alice.key)
    plugin = program(tmp_path, {"token": "t0ken-s3cret"})
    bearer = User(token="t0ken-s3cret", client_certificate_data=certificate, client_key_data=key)
    users = (bearer, User(username="u", password="pass-s3cret"), User(exec=plugin))
    said = []
    for user in users:
        for cluster in ({}, {"proxy_url": "http://u:pass-s3cret@127.0.0.1:9"}, {"tls_server_name": "wrong"}):
            client = config(port, user, **cluster)
            made = Credentials(client, environ=NO_ENVIRONMENT)
            async with ApiClient(made, timeout=5, max_answer=10) as server:
                try:
                    await server.request("GET", "/", params={"a": "b"})
                except PykubeletError as error:
                    said += [repr(error), *traceback.format_exception(error)]
                said += [repr(made), repr(await made.grant()), repr(server), repr(client), str(vars(server))]
    said.append(caplog.text)
    assert len(said) > 40
    for secret in secrets:
        assert secret not in "\n".join(said)
