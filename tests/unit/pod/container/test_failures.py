from pykubelet.base.errors import Retry
from pykubelet.pod.container.failures import MissingObject, MountFailed, missing_object


def test_a_missing_object_is_told_in_upstreams_words() -> None:
    assert str(MissingObject("configmap", "shop")) == 'configmap "shop" not found'


def test_an_error_that_comes_from_one_says_which() -> None:
    missing = MissingObject("secret", "shop")
    outer = MountFailed("volume", missing)
    outer.__cause__ = Retry("between")
    outer.__cause__.__cause__ = missing
    assert missing_object(outer) is missing
    assert missing_object(missing) is missing
    assert missing_object(Retry("something else")) is None
