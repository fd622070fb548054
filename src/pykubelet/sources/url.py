"""Static pods from a manifest URL, asked again and again.

What it last said well stays true while it is silent, empty, broken or unreachable.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pykubelet.api.documents import MAX_BYTES
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import URL_SOURCE
from pykubelet.api.validation.options import DEFAULT_OPTIONS, PodValidationOptions
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.lifecycle.pod_update import Listed
from pykubelet.sources.manifest import BadManifest, Place, read_manifest

log = logging.getLogger(__name__)

_TIMEOUT: Final = 10.0
_MOST_REDIRECTS: Final = 10
_LONGEST_WAIT: Final = 300.0
_LOUD_FAILURES: Final = 3


class _Empty(Retry):
    """The server is there and has nothing to say."""


class UrlSource:
    """`watch` yields the whole truth when it is first known and whenever it changes.

    `headers` may hold secrets: they go to the URL's own server, to no other that it redirects to, and into no log.
    """

    def __init__(
        self,
        url: str,
        node_name: str,
        *,
        headers: Mapping[str, Sequence[str]] | None = None,
        period: float = 20.0,
        lenient: bool = False,
        validation: PodValidationOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Raises Invalid when there is no way to ask that URL."""
        self._url = checked_url(url)
        self._headers = tuple((name, value) for name, values in (headers or {}).items() for value in values)
        self._period = period
        self._lenient = lenient
        self._validation = validation
        self._place = Place(origin=url, source=URL_SOURCE, node_name=node_name, shown=_shown(self._url))
        self._etag = ""
        self._data = b""
        self._pods: tuple[Pod, ...] | None = None
        """What it last said well, if ever. It outlives a watch: an empty answer to the next one takes no pod away."""
        self._failures = 0

    async def watch(self) -> AsyncGenerator[Listed, None]:
        told: tuple[Pod, ...] | None = None
        pods: tuple[Pod, ...] | None
        now = asyncio.get_running_loop().time
        backoff = Backoff(self._period, max(_LONGEST_WAIT, self._period), now=now, jitter=0.1)
        async with _session() as session:
            while True:
                pause = self._period
                try:
                    pods = await self._ask(session)
                    self._note_success()
                    backoff.reset()
                except (Retry, Invalid) as error:
                    self._note_failure(error)
                    pause = backoff.next()
                    # An empty answer takes no pods away, but while there are none yet, it need not be waited for.
                    pods = (self._pods or ()) if isinstance(error, _Empty) else None
                if pods is not None and pods != told:
                    told = pods
                    yield Listed(pods)
                await asyncio.sleep(pause)

    async def _ask(self, session: aiohttp.ClientSession) -> tuple[Pod, ...] | None:
        """The pods, or None when the answer is the same as before and has never been good."""
        try:
            data = await self._get(session)
        except TimeoutError:
            raise Retry(f"{self._place}: no answer within {_TIMEOUT:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The text of an error answer holds the URL that was asked, and after a redirect that is not ours to show.
            text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
            raise Retry(f"{self._place}: {type(error).__name__}: {self._clean(text)}") from None
        if data is not None and data != self._data:
            self._data = data
            read = partial(read_manifest, data, self._place, lenient=self._lenient, validation=self._validation)
            manifest = await asyncio.to_thread(read)  # a large one takes seconds
            for ignored in manifest.ignored:
                log.warning("%s", ignored)
            self._pods = manifest.pods
        return self._pods

    async def _get(self, session: aiohttp.ClientSession) -> bytes | None:
        """The body, or None when the server says that it has not changed."""
        url = self._url
        for _ in range(_MOST_REDIRECTS + 1):
            headers = self._headers if url.origin() == self._url.origin() else ()
            if self._etag and url.origin() == self._url.origin():
                headers = (*headers, ("If-None-Match", self._etag))
            async with session.get(url, headers=CIMultiDict(headers), allow_redirects=False) as answer:
                if answer.status in (301, 302, 303, 307, 308) and "Location" in answer.headers:
                    url = self._redirected(url, answer.headers["Location"])
                    continue
                if answer.status == 304 and self._etag:
                    return None
                if answer.status != 200:
                    raise Retry(f"{self._place}: answered {answer.status} {self._clean(answer.reason or '')}")
                data = await self._body(answer)
                self._etag = answer.headers.get("ETag", "") if url == self._url else ""
                return data
        raise Retry(f"{self._place}: redirects more than {_MOST_REDIRECTS} times")

    def _redirected(self, url: URL, location: str) -> URL:
        try:
            return checked_url(str(url.join(URL(location))))
        except (Invalid, ValueError):
            raise Retry(f"{self._place}: redirects to something that cannot be asked") from None

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        data = bytearray()
        async for chunk in answer.content.iter_chunked(1 << 16):
            data += chunk
            if len(data) > MAX_BYTES:
                raise Retry(f"{self._place}: the answer is larger than {MAX_BYTES >> 20} MiB and was refused")
        if not data:
            raise _Empty(f"{self._place}: the answer is empty; keeping the pods from before")
        return bytes(data)

    def _note_failure(self, error: Exception) -> None:
        if isinstance(error, BadManifest):  # told once: the same answer again is no news
            for fault in error.faults:
                log.error("%s", fault)
            return
        self._failures += 1
        log.log(logging.ERROR if self._failures <= _LOUD_FAILURES else logging.DEBUG, "%s", error)
        if self._failures == _LOUD_FAILURES + 1:
            log.error("%s: still failing; no further word of it until it works again", str(self._place))

    def _note_success(self) -> None:
        if self._failures:
            log.info("%s: works again", str(self._place))
        self._failures = 0

    def _clean(self, text: str) -> str:
        """What a library or a server says, without what must not be said."""
        url = self._url
        text = text.replace(str(url), str(self._place))
        of_url = (url.raw_user, url.user, url.raw_password, url.password, url.raw_query_string, url.query_string)
        for secret in (*of_url, *url.query.values(), *(value for _, value in self._headers)):
            if secret:
                text = text.replace(secret, "***")
        return text


def _session() -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    return aiohttp.ClientSession(timeout=timeout, trust_env=True, cookie_jar=aiohttp.DummyCookieJar())


def checked_url(text: str) -> URL:
    """Raises Invalid when there is no way to ask it."""
    try:
        url = URL(text)
    except ValueError:
        raise Invalid("the manifest URL cannot be read: write it like https://example.com/pods.yaml") from None
    if url.scheme not in ("http", "https") or not url.host:
        shown = f" {_shown(url)}" if url.host else ""  # else there is no telling which part of it is a password
        raise Invalid(f"the manifest URL{shown} must start with http:// or https:// and name a host")
    return url


def _shown(url: URL) -> str:
    """For people: without user, password, query and fragment."""
    return str(url.with_user(None).with_query(None).with_fragment(None))
