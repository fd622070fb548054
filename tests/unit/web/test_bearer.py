import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from pykubelet.base.errors import Invalid
from pykubelet.web.bearer import bearer_token, without_tokens


def read(*values: str) -> str | None:
    return bearer_token(CIMultiDictProxy(CIMultiDict([("Authorization", value) for value in values])))


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc.def", "abc.def"),
        ("bearer abc", "abc"),
        ("BEARER abc==", "abc=="),
        (" Bearer abc ", "abc"),
        ("", None),
        ("Bearer", None),
        ("Bearer  abc", None),
        ("Basic YTpi", None),
        ("abc", None),
    ],
)
def test_the_token_is_what_follows_the_scheme(header: str, token: str | None) -> None:
    assert read(header) == token


def test_no_header_has_no_token() -> None:
    assert read() is None


@pytest.mark.parametrize("values", [("Bearer a b",), ("Bearer a\tb",), ("Bearer ä",), ("Bearer a", "Bearer b")])
def test_what_can_be_read_in_two_ways_is_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(Invalid):
        read(*values)


def test_no_token_is_handed_on() -> None:
    token = "base64url.bearer.authorization.k8s.io.YWJj"
    headers = [
        ("Host", "h"),
        ("authorization", "Bearer abc"),
        ("Sec-WebSocket-Protocol", f"v5.channel.k8s.io, {token}"),
        ("sec-websocket-protocol", token),
    ]
    assert list(without_tokens(headers)) == [("Host", "h"), ("Sec-WebSocket-Protocol", "v5.channel.k8s.io")]
