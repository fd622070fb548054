"""What OpenAPI 2 is told of a schema."""

from pykubelet.apiserver.custom.openapi_v2 import for_v2


def test_what_it_cannot_say_is_left_open() -> None:
    text = {"type": "string", "description": "A word."}
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {**text, "pattern": "^a", "anyOf": [{"minLength": 1}], "x-kubernetes-validations": [{"rule": "true"}]},
            "none": {**text, "nullable": True},
            "any": {"type": "object", "properties": {"b": text}, "x-kubernetes-preserve-unknown-fields": True},
            "list": {"type": "array", "items": {**text, "not": {"enum": ["x"]}}, "x-kubernetes-list-type": "set"},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "oneOf": [{}]}},
        },
    }

    assert for_v2(schema) == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {**text, "pattern": "^a"},
            "none": {"description": "A word."},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "list": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
