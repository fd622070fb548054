import pytest

from pykubelet.pod.images.keyring import lookup, parse_pattern
from pykubelet.pod.ports.runtime import PullCredentials


@pytest.mark.parametrize(
    ("pattern", "repository", "fits"),
    [
        # hosts
        ("registry.example", "registry.example/app", True),
        ("registry.example", "other.example/app", False),
        ("*.example", "registry.example/app", True),
        ("*.example", "a.registry.example/app", False),
        ("*.*.example", "a.registry.example/app", True),
        ("registry.*", "registry.example/app", True),
        ("reg*.example", "registry.example/app", True),
        ("*try.example", "registry.example/app", True),
        ("r*y.example", "registry.example/app", True),
        ("reg*.example", "myregistry.example/app", False),
        ("*", "localhost/app", True),
        ("*", "registry.example/app", False),
        ("[a-c].example", "b.example/app", True),
        ("[^a-c].example", "b.example/app", None),
        ("[a-c.example", "b.example/app", False),
        ("[z-a].example", "b.example/app", False),
        # ports
        ("registry.example:5000", "registry.example:5000/app", True),
        ("registry.example:5000", "registry.example:5001/app", False),
        ("registry.example:5000", "registry.example/app", False),
        ("registry.example", "registry.example:5000/app", False),
        ("*.example:5000", "registry.example:5000/app", True),
        ("registry.example:*", "registry.example/app", None),
        ("[::1]:5000", "[::1]:5000/app", True),
        ("[::1]:5000", "[::1]/app", False),
        ("[::1]", "[::1]/app", True),
        # paths
        ("registry.example/team", "registry.example/team/app", True),
        ("registry.example/team/", "registry.example/team/app", True),
        ("registry.example/team/app", "registry.example/team/app", True),
        ("registry.example/tea", "registry.example/team/app", True),
        ("registry.example/", "registry.example/team/app", True),
        ("registry.example/other", "registry.example/team/app", False),
        ("registry.example/team/app/more", "registry.example/team/app", False),
        ("registry.example/*", "registry.example/team/app", False),
        ("registry.example/team?x=y#z", "registry.example/team/app", True),
        ("user@registry.example", "registry.example/app", True),
        ("", "registry.example/app", False),
        ("regis try.example", "registry.example/app", None),
        ("registry.example/a\nb", "registry.example/app", None),
    ],
)
def test_a_pattern_covers_an_image_by_host_port_and_path(pattern: str, repository: str, fits: bool | None) -> None:
    if fits is None:
        with pytest.raises(ValueError, match=r"is not a registry|has no number"):
            parse_pattern(pattern)
    else:
        assert parse_pattern(pattern).covers(repository) is fits


def found(repository: str, *servers: str) -> list[str]:
    """The servers whose credentials are tried, in order."""
    return [each.username for each in lookup(repository, [(name, PullCredentials(username=name)) for name in servers])]


@pytest.mark.parametrize(
    ("repository", "servers", "tried"),
    [
        ("r.example/app", ["https://r.example", "http://r.example", "r.example"], "all"),
        ("r.example/app", ["https://r.example/v1/", "https://r.example/v2/", "r.example/"], "all"),
        ("r.example/app", ["https://r.example/v1", "r.example/v2"], []),
        ("r.example/v1/app", ["https://r.example/v1"], "all"),
        ("r.example/team/app", ["https://r.example/v2/team"], "all"),
        ("r.example/team/app", ["r.example", "r.example/team", "r.example/team/app"], "reversed"),
        ("r.example/app", ["*.example", "r.example"], "reversed"),
        ("r.example/app", ["ftp://r.example", "bad host", "r.example:x"], []),
        ("docker.io/library/busybox", ["https://index.docker.io/v1/"], "all"),
        ("docker.io/library/busybox", ["index.docker.io"], "all"),
        ("docker.io/library/busybox", ["docker.io"], "all"),
        ("docker.io/library/busybox", ["docker.io/library"], "all"),
        ("docker.io/library/busybox", ["index.docker.io", "docker.io"], ["docker.io"]),
        ("docker.io/library/busybox", ["registry-1.docker.io", "index.docker.io/library"], []),
        ("r.example/app", ["index.docker.io"], []),
    ],
)
def test_credentials_are_found_as_every_node_finds_them(
    repository: str, servers: list[str], tried: list[str] | str
) -> None:
    wanted = {"all": servers, "reversed": servers[::-1]}.get(tried) if isinstance(tried, str) else tried
    assert found(repository, *servers) == wanted
