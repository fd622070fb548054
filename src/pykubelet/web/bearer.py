"""The bearer token of a request: one reading of the header for every server, so that none sees another token in it."""

from aiohttp import hdrs
from multidict import CIMultiDictProxy

from pykubelet.base.errors import Invalid


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
