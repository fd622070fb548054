"""The page as a person sees it: a real browser, a real node, and kubectl beside it."""

import hashlib
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from kit.agent_process import command
from kit.browser import Visitor, started_browser, visitor
from kit.up_cluster import UpCluster, cluster_up, kill, pod

pytestmark = pytest.mark.timeout(120)

READY = {"exec": {"command": ["cat", "/tmp/ready"]}, "periodSeconds": 1}
TALKER = "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.2; done"


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up(manifests={"talker.json": json.dumps(pod("talker", TALKER))}) as running:
        running.apply(pod("crash", "echo all is lost >&2; exit 3"))
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as started:
        yield started


@pytest.fixture
def person(cluster: UpCluster, browser: Browser) -> Iterator[Visitor]:
    with visitor(cluster, browser) as made:
        made.enter()
        yield made


def test_the_link_of_up_leads_in_once_and_leaves_nothing_of_itself_behind(cluster: UpCluster, browser: Browser) -> None:
    told = re.findall(r"https://\S+/page/enter\?token=\S+", cluster.up())
    assert len(told) == 1
    with visitor(cluster, browser) as anna, visitor(cluster, browser) as bert:
        anna.page.goto(told[0])
        expect(anna.page.locator("#live")).to_have_text("live")
        assert anna.page.url == f"{anna.origin}/page/"
        anna.page.go_back()
        assert "token" not in anna.page.url
        bert.page.goto(told[0])
        expect(bert.page.get_by_role("heading", name="This link does not let anybody in")).to_be_visible()
        expect(bert.page.get_by_text("pykubelet page")).to_be_visible()
        bert.page.goto(f"{anna.origin}/page/")
        expect(bert.page.get_by_role("heading", name="You are not signed in here")).to_be_visible()
        second = anna.tab()
        second.goto(f"{anna.origin}/page/")
        expect(second.locator("#live")).to_have_text("live")
        second.get_by_role("button", name="Sign out").click()
        expect(second.get_by_role("heading", name="You are not signed in here")).to_be_visible()


def test_the_certificate_that_is_shown_is_the_one_that_was_named(cluster: UpCluster) -> None:
    told = command("page", "--data", str(cluster.data))
    parts = urlsplit(told.split()[0])
    pem = ssl.get_server_certificate((str(parts.hostname), int(parts.port or 0)))
    shown = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).digest().hex(":").upper()
    assert shown in told


def test_a_pod_that_is_applied_appears_becomes_ready_and_goes_without_a_reload(person: Visitor) -> None:
    page = person.page
    page.evaluate("window.unreloaded = true")
    script = "sleep 1; touch /tmp/ready; exec sleep 1000"
    init = [{"name": "prepare", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 0.5"]}]
    person.cluster.apply(pod("web", script, container={"readinessProbe": READY}, initContainers=init))
    row = page.get_by_role("row", name=re.compile("^web "))
    expect(row).to_be_visible()
    expect(row).to_contain_text("Running")
    expect(row).to_contain_text("1/1")
    row.get_by_role("link", name="web").click()
    expect(page.locator("h1")).to_be_focused()
    expect(page.locator(".lead")).to_contain_text("web runs")
    stages = page.locator(".waterfall .stage")
    expect(stages.last).to_have_text("Until ready")
    shown = [text for text in stages.all_inner_texts() if not text.startswith("Pull")]
    assert [text.partition("\n")[0].strip() for text in shown] == [
        "Waits for its worker",
        "Sandbox",
        "Init container",
        "Start",
        "Until ready",
    ]
    expect(page.locator(".waterfall .longest")).to_have_count(1)
    starts = page.locator(".waterfall .bar.path").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.left))")
    assert starts == sorted(starts), "one after the other"
    expect(page.locator(".probes")).to_contain_text("readiness: Success")
    page.get_by_role("tab", name="Events").click()
    expect(page.get_by_role("list", name="Events")).to_contain_text("Started")
    person.cluster.kubectl("delete", "pod", "web", "--now")
    expect(page.locator("h1 + .badge")).to_contain_text("Gone")
    page.get_by_role("link", name="Pods", exact=True).click()
    expect(page.get_by_role("row", name=re.compile("^talker"))).to_be_visible()
    expect(row).to_have_count(0)
    assert page.evaluate("window.unreloaded") is True


def test_a_crash_loop_shows_its_reason_and_its_last_words(person: Visitor) -> None:
    page = person.page
    row = page.get_by_role("row", name=re.compile("^crash "))
    expect(row).to_contain_text("CrashLoopBackOff")
    expect(row).to_contain_text(" with code 3")
    row.get_by_role("link").click()
    expect(page.locator(".lead")).to_contain_text("last words: `all is lost`")
    expect(page.locator(".advice")).to_contain_text("kubectl")
    expect(page.locator(".words")).to_contain_text("all is lost")


def test_logs_follow(person: Visitor) -> None:
    page = person.pod(f"talker-{person.cluster.node}")
    log = page.get_by_role("log", name="Log")
    expect(log).to_contain_text("line 1")
    seen = len(log.inner_text().splitlines())
    page.wait_for_function("n => document.querySelector('.log').innerText.split('\\n').length > n + 3", arg=seen)
    numbers = [int(each) for each in re.findall(r"line (\d+)", log.inner_text())]
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), "nothing is left out, nothing comes twice"


def test_the_terminal_answers(person: Visitor) -> None:
    page = person.pod(f"talker-{person.cluster.node}")
    page.get_by_role("tab", name="Terminal").click()
    page.get_by_role("button", name="Open a shell").click()
    screen = page.locator(".screen")
    expect(page.get_by_label("Terminal input")).to_be_focused()
    page.keyboard.type("echo answer $((6*7)); stty size\n")
    expect(screen).to_contain_text("answer 42")
    expect(screen).to_contain_text(re.compile(r"\d+ \d+"))
    rows, columns = map(int, re.findall(r"^(\d+) (\d+)\s*$", screen.inner_text(), re.MULTILINE)[0])
    assert rows >= 5
    assert columns >= 60
    page.keyboard.type("printf '\\033[2J\\033[3;5H\\033[31mred\\033[0m'; sleep 0.1; cat\n")
    expect(screen.locator("div").nth(2)).to_have_text(re.compile("^    red"))
    page.keyboard.press("Control+C")
    page.keyboard.type("exit 7\n")
    expect(page.get_by_text("The shell has ended with code 7.")).to_be_visible()


SCREENS = [
    # what is written to a screen of 10 by 4, what it shows then, where the cursor is
    ("plain", "hello\r\nworld", ["hello", "world"], (5, 1)),
    ("a long line goes on in the next", "0123456789ab", ["0123456789", "ab"], (2, 1)),
    ("a full line wraps with the next letter", "0123456789\rx", ["x123456789"], (1, 0)),
    ("what is full scrolls", "1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"], (1, 3)),
    ("cursor", "\x1b[2;3Hx\x1b[Ay\x1b[2Dz", ["  zy", "  x"], (3, 0)),
    ("erase a line", "abcdef\x1b[3D\x1b[K", ["abc"], (3, 0)),
    ("erase all", "abc\r\ndef\x1b[2J\x1b[Hx", ["x"], (1, 0)),
    ("insert and delete letters", "abcd\x1b[3D\x1b[2@\x1b[1P", ["a bcd"], (1, 0)),
    ("insert a line", "1\r\n2\r\n3\x1b[2;1H\x1b[L", ["1", "", "2", "3"], (0, 1)),
    ("delete a line", "1\r\n2\r\n3\x1b[1;1H\x1b[M", ["2", "3"], (0, 0)),
    ("a region scrolls alone", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\nx", ["1", "3", "x", "4"], (1, 2)),
    ("back from the other screen", "shell\x1b[?1049h\x1b[Hvim\x1b[?1049l", ["shell"], (5, 0)),
    ("lines of boxes", "\x1b(0lqk\x1b(B.", ["┌─┐."], (4, 0)),
    ("wide letters", "日本x", ["日本x"], (5, 0)),
    ("tabs", "a\tb", ["a       b"], (9, 0)),
    ("titles and links", "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link", ["link"], (4, 0)),
    (
        "nonsense",
        "\x1b[99999;99999Hx\x1b[?;;;;m\x1b[>1;2c\x1bP+q\x1b\\\x1b[1;1Hok",
        ["ok", "", "", "         x"],
        (2, 0),
    ),
    ("an end in the middle", "ok\x1b[38;5", ["ok"], (2, 0)),
]
SHOWN = """async (text) => {
  const { Screen } = await import("./files/screen.js");
  const replies = [];
  const screen = new Screen(10, 4, (reply) => replies.push(reply));
  screen.write(new TextEncoder().encode(text));
  const lines = screen.lines.map((line) => line.map((cell) => cell.text).join("").trimEnd());
  while (lines.length && !lines[lines.length - 1]) lines.pop();
  return { lines, cursor: [screen.x, screen.y], replies };
}"""


def test_a_screen_does_what_programs_ask_of_it(person: Visitor) -> None:
    for what, text, lines, cursor in SCREENS:
        found = person.page.evaluate(SHOWN, text)
        assert found["lines"] == lines, what
        assert tuple(found["cursor"]) == cursor, what
    assert person.page.evaluate(SHOWN, "ab\x1b[6n\x1b[c")["replies"] == ["\x1b[1;3R", "\x1b[?1;2c"]


def test_the_loop_is_seen_at_work(person: Visitor) -> None:
    page = person.page
    page.get_by_role("link", name="Sync loop").click()
    boxes = page.locator(".flow .box h2")
    expect(boxes).to_have_text(["Sources", "Inbox", "Sync loop", "Workers", "Runtime", "Status manager"])
    expect(page.locator(".flow .box").nth(2)).to_contain_text(re.compile(r"ticks\s*[01]\.\d/s"))
    expect(page.get_by_role("meter")).to_have_attribute("aria-valuemax", "1000")
    person.cluster.apply(pod("slow", "trap '' TERM; sleep 1000 & wait; wait", terminationGracePeriodSeconds=4))
    person.cluster.ready("slow")
    person.cluster.kubectl("delete", "pod", "slow", "--wait=false")
    expect(page.get_by_role("listitem").filter(has_text="kill").filter(has_text="slow")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text=re.compile("StopContainer|StopPodSandbox"))).to_be_visible()


def test_the_node_says_what_it_is(person: Visitor) -> None:
    page = person.page
    page.get_by_role("link", name="Node", exact=True).click()
    expect(page.locator("h1")).to_have_text(person.cluster.node)
    expect(page.locator("h1 + .badge")).to_have_text("Ready")
    expect(page.locator(".conditions")).to_contain_text("kubelet is posting ready status")
    expect(page.get_by_role("list", name="Events of the node")).to_contain_text("Starting")


def test_what_was_used_is_drawn(person: Visitor) -> None:
    figures = person.page.locator(".figure")
    expect(figures.first).to_contain_text(re.compile(r"\d of \d"), timeout=30_000)
    expect(figures.first.locator("svg")).to_have_attribute("aria-label", re.compile("CPU of the node in the last hour"))
    expect(figures.nth(1).locator("path.line")).not_to_have_count(0, timeout=30_000)


# --- for everybody

FAULTS = (Path(__file__).parents[1] / "kit" / "page_faults.js").read_text()


TOO_WIDE = """[...document.querySelectorAll("main *")]
  .filter((each) => each.getBoundingClientRect().right > 361 && !each.closest("pre"))
  .map((each) => each.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_has_names_landmarks_and_an_order(cluster: UpCluster, browser: Browser, scheme: Any) -> None:
    with visitor(cluster, browser, color_scheme=scheme) as anna:
        page = anna.enter()
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 3 * 64) == (scheme == "dark")
        for place, sign in (("#/", "table.pods a"), ("#/loop", ".box dd"), ("#/node", ".conditions li")):
            page.goto(f"{anna.origin}/page/{place}")
            page.wait_for_selector(sign)
            assert page.evaluate(FAULTS) == [], place
        anna.pod("crash")
        page.wait_for_selector(".waterfall")
        for name in ("Terminal", "Events", "Timeline", "Logs"):
            page.get_by_role("tab", name=name).click()
            assert page.evaluate(FAULTS) == [], name


def test_keys_alone_lead_everywhere(person: Visitor) -> None:
    page = person.page
    press = page.keyboard.press
    expect(page.locator("table.pods")).to_be_visible()
    press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    press("Enter")
    expect(page.locator("main")).to_be_focused()
    press("/")
    expect(page.get_by_label("Filter")).to_be_focused()
    page.keyboard.type("talker")
    expect(page.locator("table.pods tbody tr")).to_have_count(1)
    press("Tab")
    link = page.get_by_role("link", name=f"talker-{person.cluster.node}")
    expect(link).to_be_focused()
    assert link.evaluate("link => getComputedStyle(link).outlineStyle") == "solid", "where one is can be seen"
    press("Enter")
    expect(page.locator("h1")).to_be_focused()
    for _ in range(20):
        press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "tab":
            break
    expect(page.get_by_role("tab", name="Logs")).to_be_focused()
    press("ArrowRight")
    expect(page.get_by_role("tab", name="Terminal")).to_be_focused()
    expect(page.get_by_role("tab", name="Terminal")).to_have_attribute("aria-selected", "true")
    button = page.get_by_role("button", name="Open a shell")
    expect(button).to_be_visible()
    for _ in range(5):
        press("Tab")
        if button.evaluate("button => button === document.activeElement"):
            break
    press("Enter")
    expect(page.get_by_label("Terminal input")).to_be_focused()
    page.keyboard.type("echo by $((1+1)) hands\n")
    expect(page.locator(".screen")).to_contain_text("by 2 hands")
    press("Shift+Tab")
    expect(page.get_by_label("Terminal input")).not_to_be_focused()


def test_a_phone_shows_all_of_it_without_moving_sideways(cluster: UpCluster, browser: Browser) -> None:
    with visitor(cluster, browser, viewport={"width": 360, "height": 740}, has_touch=True) as anna:
        page = anna.enter()
        places = {
            "#/": "table.pods a",
            "#/loop": ".box dd",
            "#/node": ".conditions li",
            "#/pods/default/crash": ".card",
        }
        for place, sign in places.items():
            page.goto(f"{anna.origin}/page/{place}")
            page.wait_for_selector(sign)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, place
            assert page.evaluate(TOO_WIDE) == [], place


def test_who_wants_no_motion_sees_none(cluster: UpCluster, browser: Browser) -> None:
    with visitor(cluster, browser, reduced_motion="reduce") as anna:
        page = anna.enter()
        page.goto(f"{anna.origin}/page/#/loop")
        page.wait_for_selector(".box dd")
        assert page.evaluate("document.getAnimations().length") == 0


def test_the_first_picture_is_there_at_once(person: Visitor) -> None:
    page = person.tab()
    page.goto(f"{person.origin}/page/")
    expect(page.locator("#live")).to_have_text("live")
    painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    page.wait_for_function(f"{painted} > 0")
    assert page.evaluate(painted) < 1500, "500 ms on a machine that has nothing else to do"


def test_an_agent_that_is_gone_is_told_and_its_sessions_are_gone_with_it(cluster: UpCluster, browser: Browser) -> None:
    with visitor(cluster, browser) as anna:
        page = anna.enter()
        before = cluster.agent_pid()
        kill(before)
        expect(page.locator("#live")).to_have_text(re.compile("connection lost|signed out"))
        expect(page.get_by_role("heading", name="Your session has ended")).to_be_visible(timeout=30_000)
        assert cluster.agent_pid() not in (0, before)
