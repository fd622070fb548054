"""Attacks on the page: pods that write script, pages of others, names that were pointed here, and crowds."""

import asyncio
import json
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from playwright.sync_api import Browser, expect

from kit.browser import Visitor, beside, started_browser, visitor
from kit.certificates import Authority
from kit.up_cluster import UpCluster, cluster_up, kill, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

EVIL = "<script>window.hacked=1;alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>"
STRANGE = "\x1b]0;evil\x07\x1b]52;c;ZXZpbA==\x07\x1b]8;;javascript:alert(4)\x07link\x1b]8;;\x07"
REBOUND = "rebound.example"


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        printed = EVIL.replace("'", "")
        script = f"printf '%s' '{printed}' > /dev/termination-log; printf '%b\\n' '{STRANGE}{printed}'; exit 3"
        running.apply(
            pod("loud", script, container={"env": [{"name": "X", "value": EVIL}]}, labels={}),
            pod("nameless", container={"image": EVIL, "command": None}),
            pod("lost", container={"command": [EVIL]}),
            pod("quiet", "exec sleep 1000"),
        )
        running.ready("quiet")
        yield running


@pytest.fixture(scope="module")
def browser(cluster: UpCluster) -> Iterator[Browser]:
    address = json.loads((cluster.data / ".pykubelet").read_bytes())["address"]
    with started_browser(f"--host-resolver-rules=MAP {REBOUND} {address}") as started:
        yield started


@pytest.fixture
def victim(cluster: UpCluster, browser: Browser) -> Iterator[Visitor]:
    with visitor(cluster, browser) as made:
        made.enter()
        yield made


# --- what pods write


def test_what_a_pod_writes_never_becomes_markup(victim: Visitor) -> None:
    """It is all shown, as text: logs, last words, messages, events, names of images and programs."""
    page = victim.page
    expect(page.locator("table.pods tbody tr")).to_have_count(4)
    shown = 0
    for name in ("loud", "nameless", "lost"):
        victim.pod(name)
        page.wait_for_selector(".card")
        for tab in ("Logs", "Events", "Timeline"):
            page.get_by_role("tab", name=tab).click()
            if name == "loud" and tab == "Logs":
                expect(page.locator(".log")).to_contain_text("onerror=alert(2)")
            if name != "loud" and tab == "Events":
                expect(page.locator(".moments")).to_contain_text("<script>")
            shown += page.locator("main").inner_text().count("<script>window.hacked")
        assert page.locator("main script, main img, main svg[onload], main a[href^=java]").count() == 0
    assert shown >= 6
    assert page.evaluate("window.hacked") is None
    assert "evil" not in page.title()


def test_the_terminal_obeys_no_escape_that_reaches_beyond_it(victim: Visitor) -> None:
    page = victim.pod("quiet")
    page.get_by_role("tab", name="Terminal").click()
    page.get_by_role("button", name="Open a shell").click()
    expect(page.get_by_label("Terminal input")).to_be_focused()
    beyond = "\\033[99999;99999H\\033[99999b\\033[1;99999r\\033[99999L\\033]0;evil\\007"
    page.keyboard.type(f"printf '{EVIL}{beyond}'; printf '\\033c'; echo the $((1+1)) ends\n")
    expect(page.locator(".screen")).to_contain_text("the 2 ends")
    assert page.locator(".terminal script, .terminal img, .terminal a").count() == 0
    assert page.title() == "quiet · pykubelet"


# --- pages of others


@contextmanager
def hostile(address: str, authority: Authority, folder: Path, body: str) -> Iterator[tuple[str, list[str]]]:
    """A page on another port of the node's own address, as a pod can serve it. -> where, and the cookies it gets"""
    cookies: list[str] = []

    class Served(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    issued = authority.issue("pod", hosts=[address])
    (folder / "pair.pem").write_bytes(issued.certificate + issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    server = ThreadingHTTPServer((address, 0), Served)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield f"https://{address}:{server.server_port}", cookies
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


ATTACK = (Path(__file__).parents[1] / "kit" / "page_attack.js").read_text()


def test_a_page_of_a_pod_on_the_same_host_gets_nothing(victim: Visitor, tmp_path: Path) -> None:
    parts = urlsplit(victim.origin)
    page = victim.tab()
    with hostile(str(parts.hostname), Authority(), tmp_path, "<title>pod</title>") as (place, cookies):
        page.goto(place)
        got: dict[str, str] = page.evaluate(ATTACK, victim.origin)
        victim.wrong.clear()  # the browser tells of all that it has refused
    assert all(each.startswith("refused") or each == "" for each in got.values()), got
    stolen = next(each for each in cookies if "__Host-pykubelet" in each)
    assert stolen, "browsers send cookies to every port: that is what the key is for"
    for path in ("/page/state", "/page/stream", "/containerLogs/default/quiet/c", "/exec/default/quiet/c?command=id"):
        assert beside(_status(victim.origin + path, {"Cookie": stolen})) == 401, path
    expect(victim.page.locator("#live")).to_have_text("live")
    assert beside(_status(f"{victim.origin}/page/state", victim.credentials())) == 200


def test_a_name_that_was_pointed_at_the_node_serves_nothing(victim: Visitor) -> None:
    port = urlsplit(victim.origin).port
    page = victim.tab()
    for path in ("/page/", "/page/state", urlsplit(victim.link()).path + "?" + urlsplit(victim.link()).query):
        answer = page.goto(f"https://{REBOUND}:{port}{path}")
        assert answer is not None
        assert answer.status == 421, path
        assert "quiet" not in page.content()
    victim.wrong.clear()


# --- tokens and sessions


async def _status(url: str, headers: dict[str, str]) -> int:
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), cookie_jar=aiohttp.DummyCookieJar()) as client,
        client.get(url, headers=headers) as answer,
    ):
        return answer.status


def test_guesses_are_in_vain_and_many_of_them_keep_nobody_out(victim: Visitor) -> None:
    origin, before = victim.origin, victim.link()

    async def guess() -> set[int]:
        connector = aiohttp.TCPConnector(ssl=False, limit=4)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as client:

            async def one() -> int:
                async with client.get(f"{origin}/page/enter?token={os.urandom(24).hex()}") as answer:
                    assert "Set-Cookie" not in answer.headers
                    return answer.status

            return set(await asyncio.gather(*(one() for _ in range(300))))

    assert beside(guess()) == {403}
    assert beside(_status(before, {})) == 200


def test_a_session_dies_with_its_agent(victim: Visitor, cluster: UpCluster) -> None:
    credentials, origin, pid = victim.credentials(), victim.origin, cluster.agent_pid()
    assert beside(_status(f"{origin}/page/state", credentials)) == 200
    unused = victim.link()
    kill(pid)
    wait_for(lambda: cluster.agent_pid() not in (0, pid) and _answers(origin))
    assert beside(_status(f"{origin}/page/state", credentials)) == 401
    assert beside(_status(unused, {})) == 403


def _answers(origin: str) -> bool:
    try:
        return beside(_status(f"{origin}/page/state", {})) == 401
    except aiohttp.ClientError:
        return False


# --- crowds


def test_a_thousand_listeners_cost_no_more_than_a_few(victim: Visitor, cluster: UpCluster) -> None:
    credentials, origin = victim.credentials(), victim.origin

    async def crowd() -> list[Any]:
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as client:
            held = []

            async def listen() -> int:
                try:
                    answer = await client.get(f"{origin}/page/stream", headers=credentials)
                    held.append(answer)
                    return answer.status
                except aiohttp.ClientError:
                    return 0

            found = await asyncio.gather(*(listen() for _ in range(1000)))
            # while all of them are there, others get their answers
            assert await _status(f"{origin}/page/state", credentials) == 200
            for answer in held:
                answer.close()
            return found

    before = _memory(cluster.agent_pid())
    found = beside(crowd())
    assert set(found) <= {200, 429, 0}, "let in, refused in words, or not even let through the door"
    assert found.count(200) < 200
    assert _memory(cluster.agent_pid()) - before < 1000 * (160 << 10), "what TLS takes for a thousand, and little else"
    assert "quiet" in cluster.kubectl("get", "pods")
    assert "Traceback" not in (cluster.data / "agent.log").read_text()


def test_who_never_reads_is_cut_off_or_held_within_bounds(victim: Visitor, cluster: UpCluster) -> None:
    parts, credentials = urlsplit(victim.origin), victim.credentials()

    async def deaf() -> None:
        held = []
        for _ in range(20):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            _, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context, limit=1024)
            head = "".join(f"{name}: {value}\r\n" for name, value in credentials.items())
            writer.write(f"GET /page/stream HTTP/1.1\r\nHost: {parts.netloc}\r\n{head}\r\n".encode())
            await writer.drain()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            held.append(writer)
        before = _memory(cluster.agent_pid())
        await asyncio.sleep(5)
        assert _memory(cluster.agent_pid()) - before < 16 << 20
        for writer in held:
            writer.transport.abort()

    beside(deaf())
    assert beside(_status(f"{victim.origin}/page/state", credentials)) == 200


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
