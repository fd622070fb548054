import pytest
from yarl import URL

from pykubelet.kube.errors import KubeconfigError
from pykubelet.kube.proxy import chosen_proxy


@pytest.mark.parametrize(
    ("server", "no_proxy", "through_proxy"),
    [
        ("https://10.1.2.3:6443", "", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "192.168.0.0/16, 10.1.2.4", True),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", False),
        ("https://10.1.2.3:6443", "10.1.2.3:443", True),
        ("https://10.1.2.3:6443", "not/a/network", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://[fd00::1]:6443", "fd00::1", False),
        ("https://api.example.com", "example.com", False),
        ("https://example.com", "example.com", False),
        ("https://notexample.com", "example.com", True),
        ("https://api.example.com", ".example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://api.example.com", "*.Example.com", False),
        ("https://api.example.com", "example.com:443", False),
        ("https://api.example.com:6443", "example.com:443", True),
        ("https://api.example.com", " , *", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://localhost:6443", "", False),
    ],
)
def test_the_environment_says_what_goes_through_the_proxy(server: str, no_proxy: str, through_proxy: bool) -> None:
    proxy = chosen_proxy(URL(server), "", {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": no_proxy}, "file")
    assert (proxy is not None) is through_proxy


@pytest.mark.parametrize(
    ("server", "environ", "url"),
    [
        ("https://a", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("https://a", {"HTTPS_PROXY": "https://upper", "https_proxy": "http://lower"}, "https://upper"),
        ("https://a", {"HTTP_PROXY": "http://p"}, None),
        ("http://a", {"HTTP_PROXY": "http://p"}, "http://p"),
        ("https://a", {"HTTPS_PROXY": "http://p", "no_proxy": "a"}, None),
        ("https://a", {}, None),
    ],
)
def test_the_scheme_chooses_the_variable(server: str, environ: dict[str, str], url: str | None) -> None:
    proxy = chosen_proxy(URL(server), "", environ, "file")
    assert (proxy and proxy.url) == (url and URL(url))


def test_the_proxy_of_the_kubeconfig_counts_always() -> None:
    environ = {"HTTPS_PROXY": "http://other", "NO_PROXY": "*"}
    proxy = chosen_proxy(URL("https://127.0.0.1"), "http://user:s3cret@mine:1", environ, "file")
    assert proxy is not None
    assert proxy.url == URL("http://mine:1")
    assert proxy.authorization == "Basic dXNlcjpzM2NyZXQ="
    assert "s3cret" not in repr(proxy)
    assert "dXNl" not in repr(proxy)


@pytest.mark.parametrize("url", ["socks5://u:s3cret@p:1080", "p:3128", "http://", "http://[s3cret"])
def test_other_kinds_of_proxy_are_refused_without_quoting_them(url: str) -> None:
    with pytest.raises(KubeconfigError, match="file: proxy-url") as caught:
        chosen_proxy(URL("https://a"), url, {}, "file")
    assert "s3cret" not in str(caught.value)
