import pytest

from pykubelet.pod.images.pull_messages import combined, duration_text, hidden, pull_failure, pulled_message
from pykubelet.pod.ports.runtime import Image, PullCredentials


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        ("no such image", "ErrImagePull", "no such image"),
        (
            "RegistryUnavailable: connection refused",
            "RegistryUnavailable",
            "image pull failed for a:1 because the registry is unavailable: connection refused",
        ),
        (
            "SignatureValidationFailed",
            "SignatureValidationFailed",
            "image pull failed for a:1 because the signature validation failed",
        ),
        ("it was RegistryUnavailable", "ErrImagePull", "it was RegistryUnavailable"),
    ],
)
def test_a_runtime_may_know_why_a_pull_failed(error: str, reason: str, message: str) -> None:
    assert pull_failure("a:1", error) == (reason, message)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0004, "0s"),
        (0.8129, "812ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (62.25, "1m2.25s"),
        (120, "2m0s"),
        (3603, "1h0m3s"),
    ],
)
def test_times_are_written_as_every_node_writes_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_pull_that_worked_tells_how_long_it_took_and_how_long_it_waited() -> None:
    said = pulled_message("a:1", Image(id="i", size=7), 1.5, 61)
    assert said == 'Successfully pulled image "a:1" in 1.5s (1m1s including waiting). Image size: 7 bytes.'


def test_errors_are_told_together_and_each_once() -> None:
    assert combined(["a"]) == "a"
    assert combined(["a", "a"]) == "a"
    assert combined(["a", "b", "a"]) == "[a, b]"


def test_a_secret_that_an_error_repeats_is_hidden() -> None:
    credentials = [PullCredentials(username="u", password="s3cret"), PullCredentials(token="s3cret-token")]
    assert hidden("basic u:s3cret, bearer s3cret-token", credentials) == "basic u:[hidden], bearer [hidden]"
    assert hidden("a b c", [PullCredentials(password="b")]) == "a b c"
