from pykubelet.api.pod import Pod
from pykubelet.api.unknown_fields import unknown_fields


def told(value: object) -> list[str]:
    return [str(each) for each in unknown_fields(Pod, value)]


def test_every_depth_is_looked_at() -> None:
    value = {
        "Kind": "Pod",
        "spec": {
            "containers": [{"name": "a"}, {"ports": [{"containerport": 1}], "resources": {"limit": {}}}],
            "securityContext": {"runAsuser": 1},
        },
    }
    assert told(value) == [
        "Kind: there is no such field; did you mean kind?",
        "spec.containers[1].ports[0].containerport: there is no such field; did you mean containerPort?",
        "spec.containers[1].resources.limit: there is no such field; did you mean limits?",
        "spec.securityContext.runAsuser: there is no such field; did you mean runAsUser?",
    ]


def test_names_that_people_choose_are_no_fields() -> None:
    metadata = {"labels": {"x": "y"}, "managedFields": [{"fieldsV1": {"f:spec": {}}}]}
    assert told({"metadata": metadata, "spec": {"nodeSelector": {"disk": "ssd"}, "overhead": {"cpu": "1"}}}) == []


def test_what_is_of_another_type_is_for_the_decoder_to_tell() -> None:
    assert told({"spec": [], "metadata": None, "status": "x"}) == told([]) == told(None) == []
