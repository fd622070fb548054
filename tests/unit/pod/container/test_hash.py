import pytest

from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.pod.container.hash import container_hash


def fnv1a_32(text: str) -> str:
    """FNV-1a as its authors describe it."""
    digest = 2166136261
    for byte in text.encode():
        digest = (digest ^ byte) * 16777619 % 2**32
    return f"{digest:x}"


def test_the_hash_is_made_from_the_printed_bytes_of_image_and_name() -> None:
    identity = b'{"image":"busybox","name":"c"}'
    printed = "([]uint8)[" + " ".join(str(byte) for byte in identity) + "]"
    assert container_hash(Container(name="c", image="busybox")) == fnv1a_32(printed)


def test_the_hash_stays_the_same_in_every_version_of_this_program() -> None:
    assert container_hash(Container(name="c", image="busybox:1.36")) == "142437a3"


def test_the_hash_changes_with_image_and_name_only() -> None:
    base = {"name": "c", "image": "a:1"}
    same = {**base, "command": ["x"], "env": [{"name": "A"}], "resources": {"limits": {"cpu": "1"}}, "tty": True}
    hashes = [
        container_hash(codec.convert(Container, each))
        for each in (base, same, {**base, "image": "a:2"}, {**base, "name": "d"})
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_name_and_image_are_not_mistaken_for_each_other() -> None:
    assert container_hash(Container(name="a", image="b")) != container_hash(Container(name="b", image="a"))


@pytest.mark.parametrize("image", ["", "a<b>&c", '"quoted"', "\u00fcml\u00e4ut"])
def test_any_image_has_a_hash(image: str) -> None:
    assert int(container_hash(Container(name="c", image=image)), 16) < 2**32


def test_what_could_harm_a_page_is_escaped_as_go_escapes_it() -> None:
    identity = b'{"image":"\\u003ca\\u0026\\u003e","name":"c"}'
    printed = "([]uint8)[" + " ".join(str(byte) for byte in identity) + "]"
    assert container_hash(Container(name="c", image="<a&>")) == fnv1a_32(printed)
