"""In which form the client wants its answer."""

import pytest

from pykubelet.apiserver.requests.media_types import Accept, accepted
from pykubelet.apiserver.status import ApiError


def test_the_first_form_that_can_be_sent_is_chosen() -> None:
    header = "application/vnd.kubernetes.protobuf, application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
    assert accepted(header) == Accept("application/json", "Table", "v1")
    assert accepted("*/*") == Accept()
    assert accepted("") == Accept()
    assert accepted("application/yaml") == Accept("application/yaml")


def test_who_accepts_nothing_that_can_be_sent_is_told_so() -> None:
    with pytest.raises(ApiError) as raised:
        accepted("text/csv")
    assert raised.value.code == 406
