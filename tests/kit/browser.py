"""A real browser without a window, and the page of a node in it. What goes wrong in the page is not overlooked."""

import asyncio
import shutil
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect, sync_playwright

from kit.agent_process import command
from kit.up_cluster import UpCluster

T = TypeVar("T")

CHROMIUM: Final = shutil.which("chromium") or ""
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE: Final = 15_000.0
_EXPECTED: Final = ("net::ERR_", "Failed to load resource")
"""What a browser says when an agent is away, or refuses something, as it should."""


@contextmanager
def started_browser(*flags: str) -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("needs chromium")
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*_FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody at a browser of his own."""

    def __init__(self, cluster: UpCluster, context: BrowserContext) -> None:
        self.cluster = cluster
        self.context = context
        self.wrong: list[str] = []
        """Errors of scripts, what the browser has forbidden, and dialogs, which nobody of ours opens."""
        context.set_default_timeout(_PATIENCE)
        self.page = self.tab()

    def tab(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("dialog", self._dismiss)
        return page

    def link(self) -> str:
        return command("page", "--url", "--data", str(self.cluster.data)).strip()

    @property
    def origin(self) -> str:
        parts = urlsplit(self.link())
        return f"{parts.scheme}://{parts.netloc}"

    def enter(self) -> Page:
        self.page.goto(self.link())
        expect(self.page.locator("#live")).to_have_text("live")
        return self.page

    def pod(self, name: str, namespace: str = "default") -> Page:
        self.page.goto(f"{self.page.url.partition('#')[0]}#/pods/{namespace}/{name}")
        expect(self.page.locator("h1")).to_have_text(name)
        return self.page

    def credentials(self) -> dict[str, str]:
        """The headers of the page's own requests."""
        (cookie,) = self.context.cookies()
        key = self.page.evaluate("localStorage.getItem('pykubelet-page-key')")
        return {"Cookie": f"{cookie['name']}={cookie['value']}", "Authorization": f"Bearer {key}"}

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(each in text for each in _EXPECTED):
            self.wrong.append(text)


def beside(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it. The browser has this thread's event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextmanager
def visitor(cluster: UpCluster, browser: Browser, **options: Any) -> Iterator[Visitor]:
    """Nothing goes wrong in the page until the end of the block."""
    with browser.new_context(ignore_https_errors=True, **options) as context:
        made = Visitor(cluster, context)
        yield made
        assert made.wrong == []
