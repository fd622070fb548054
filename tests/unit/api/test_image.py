import pytest

from pykubelet.api.image import ImageName, parse_image

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "repository", "tag"),
    [
        ("busybox", "docker.io/library/busybox", "latest"),
        ("busybox:1.36", "docker.io/library/busybox", "1.36"),
        ("team/app", "docker.io/team/app", "latest"),
        ("team/sub/app:v1", "docker.io/team/sub/app", "v1"),
        ("docker.io/busybox", "docker.io/library/busybox", "latest"),
        ("docker.io/library/busybox", "docker.io/library/busybox", "latest"),
        ("index.docker.io/busybox", "docker.io/library/busybox", "latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause", "3.10"),
        ("localhost/app", "localhost/app", "latest"),
        ("localhost:5000/app", "localhost:5000/app", "latest"),
        ("registry:5000/team/app:1.2", "registry:5000/team/app", "1.2"),
        ("127.0.0.1:5000/app", "127.0.0.1:5000/app", "latest"),
        ("[::1]:5000/app", "[::1]:5000/app", "latest"),
        ("UPPER/app", "UPPER/app", "latest"),
        ("a.b/c__d/e-f.g_h--i", "a.b/c__d/e-f.g_h--i", "latest"),
        ("registry:5000", "docker.io/library/registry", "5000"),
        ("app:_under", "docker.io/library/app", "_under"),
        ("app:" + "x" * 128, "docker.io/library/app", "x" * 128),
    ],
)
def test_a_short_name_is_completed(text: str, repository: str, tag: str) -> None:
    name = parse_image(text)
    assert name == ImageName(repository, tag, "")
    assert str(name) == f"{repository}:{tag}"


def test_a_digest_needs_no_tag() -> None:
    name = parse_image(f"busybox@{DIGEST}")
    assert name == ImageName("docker.io/library/busybox", "", DIGEST)
    assert str(name) == f"docker.io/library/busybox@{DIGEST}"


def test_a_digest_counts_for_more_than_a_tag() -> None:
    name = parse_image(f"registry:5000/app:1.2@{DIGEST}")
    assert name == ImageName("registry:5000/app", "1.2", DIGEST)
    assert str(name) == f"registry:5000/app@{DIGEST}"


def test_a_full_name_names_itself() -> None:
    for text in ("busybox", "registry:5000/team/app:1.2", f"team/app@{DIGEST}"):
        assert str(parse_image(str(parse_image(text)))) == str(parse_image(text))


@pytest.mark.parametrize(
    "text",
    ["", " ", "busybox ", " busybox", "busy box", ":1.0", "app:", "app:-x", "app:" + "x" * 129, "/app", "app/", "a//b",
     "-app", "app-", "a..b", "a___b", "registry:port/app", "reg_istry.io/app", "http://a.b/c", "app@",
     "app@sha256:12", f"app@{DIGEST}0", f"app@{DIGEST.upper()}", f"app@{DIGEST}@{DIGEST}", "app@md5:" + "0" * 32,
     "app\n", "\u00e4pp", "app:\u00e4", "$(IMAGE)"],
)  # fmt: skip
def test_what_is_no_image_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"image name|digest"):
        parse_image(text)


def test_upper_case_has_its_own_reason() -> None:
    with pytest.raises(ValueError, match="must be lower case"):
        parse_image("team/App")


def test_an_image_id_is_no_name() -> None:
    with pytest.raises(ValueError, match="is an image id"):
        parse_image("0123456789abcdef" * 4)


def test_a_name_of_255_characters_is_the_longest() -> None:
    room = 255 - len("docker.io/library/")
    assert parse_image("a" * room).tag == "latest"
    with pytest.raises(ValueError, match="longer than 255"):
        parse_image("a" * (room + 1))


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "text",
    ["a" * 200_000 + "!", "a-" * 100_000 + "!/x", "x/" + "a." * 100_000 + "!", "a." * 100_000 + "!/x",
     "x/a" + "-" * 200_000 + "!", "x/" + "a__" * 100_000, ":" * 200_000, "/" * 200_000, "@" * 200_000],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_a_hostile_name_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=r"image name|digest"):
        parse_image(text)
