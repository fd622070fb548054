"""Where images are asked for."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.images.hosts import Registries, endpoints, is_local, read_registries


def urls(registry: str, registries: Registries | None = None) -> list[tuple[str, bool]]:
    return [(each.url, each.is_own) for each in endpoints(registry, registries or Registries())]


def test_registries_are_asked_over_tls_but_for_this_machines() -> None:
    assert urls("docker.io") == [("https://registry-1.docker.io", True)]
    assert urls("registry.example:5000") == [("https://registry.example:5000", True)]
    assert urls("localhost:5000") == [("http://localhost:5000", True)]
    assert urls("[::1]:5000") == [("http://[::1]:5000", True)]


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.9.1:5000", "localhost", "[::1]:80")),
        *((host, False) for host in ("localhost.evil.example:80", "10.0.0.1:5000", "[::ffff:10.0.0.1]:5000")),
    ],
)
def test_who_is_on_this_machine(host: str, is_here: bool) -> None:
    assert is_local(host) is is_here


def test_a_file_names_mirrors_and_whom_to_trust(tmp_path: Path) -> None:
    path = tmp_path / "registries.yaml"
    assert read_registries(path) == Registries()
    path.write_text(
        "mirrors:\n  docker.io: {endpoint: ['https://mirror.example', 'http://10.0.0.1:5000']}\n"
        "  registry.lan:5000: {endpoint: ['http://registry.lan:5000']}\n"
        "configs:\n  mirror.example: {tls: {insecure_skip_verify: true}}\n"
    )
    read = read_registries(path)
    assert urls("docker.io", read) == [
        ("https://mirror.example", False),
        ("http://10.0.0.1:5000", False),
        ("https://registry-1.docker.io", True),
    ]
    assert urls("registry.lan:5000", read) == [("http://registry.lan:5000", True)]
    assert [each.verified for each in endpoints("docker.io", read)] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mirrors: {docker.io: {endpoints: []}}", "unknown field `endpoints`"),
        ("nonsense", "registries.yaml: "),
        ("mirrors: [", "registries.yaml: "),
    ],
)
def test_what_is_wrong_in_the_file_is_told(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "registries.yaml").write_text(text)
    with pytest.raises(Invalid, match=why):
        read_registries(tmp_path / "registries.yaml")


@pytest.mark.parametrize("url", ["ftp://x", "mirror.example", "https://", "https://u:p@x", "https://x/path"])
def test_a_mirror_is_a_scheme_and_a_host(tmp_path: Path, url: str) -> None:
    (tmp_path / "registries.yaml").write_text(f"mirrors: {{docker.io: {{endpoint: ['{url}']}}}}")
    with pytest.raises(Invalid, match="is not http:// or https:// and a host"):
        urls("docker.io", read_registries(tmp_path / "registries.yaml"))
