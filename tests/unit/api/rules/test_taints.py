import pytest

from pykubelet.api import codec
from pykubelet.api.rules.taints import tolerates
from pykubelet.api.scheduling import Taint, Toleration


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="the key, whatever its value"),
        pytest.param({"key": "k", "value": "v"}, True, id="key and value, equal unless it says otherwise"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, False, id="another value"),
        pytest.param({"key": "other", "operator": "Exists"}, False, id="another key"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, True, id="the effect"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, False, id="another effect"),
        pytest.param({"key": "k", "operator": "Like", "value": "v"}, False, id="an unknown operator tolerates nothing"),
    ],
)
def test_tolerations(toleration: dict[str, str], holds: bool) -> None:
    taint = Taint(key="k", value="v", effect="NoExecute")
    assert tolerates([codec.convert(Toleration, toleration)], taint) is holds
    assert not tolerates([], taint)
