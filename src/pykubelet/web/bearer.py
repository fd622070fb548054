"""The bearer token of a request: one reading of the header for every server, so that none sees another token in it; and
what of a request may be handed on, which no token is."""

from collections.abc import Iterable, Iterator

from aiohttp import hdrs
from multidict import CIMultiDictProxy

from pykubelet.base.errors import Invalid
from pykubelet.web.origin import TOKEN_PROTOCOL


def bearer_token(headers: CIMultiDictProxy[str]) -> str | None:
    """None when there is none. Raises Invalid when it can be read in more than one way."""
    given = headers.getall(hdrs.AUTHORIZATION, [])
    if len(given) > 1:
        raise Invalid("a request may have one Authorization header")
    scheme, _, token = given[0].strip(" \t").partition(" ") if given else ("", "", "")
    if scheme.lower() != "bearer" or not token or token.startswith(" "):
        return None
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise Invalid("a bearer token is one word of plain letters, digits and signs")
    return token


def without_tokens(headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What a server further on may hear: neither the header of a token, nor the protocol that is one in disguise."""
    for name, value in headers:
        if name.lower() == "sec-websocket-protocol":
            offered = [each for each in value.split(",") if not each.strip().startswith(TOKEN_PROTOCOL)]
            if offered:
                yield name, ",".join(offered)
        elif name.lower() != "authorization":
            yield name, value
