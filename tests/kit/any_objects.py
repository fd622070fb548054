"""Strategies for property tests: objects of any type that the API server knows, and any plain JSON."""

from hypothesis import strategies as st

from pykubelet.apiserver.schema.schema import Json, ListOf, MapOf, Record, Scalar, Schema

_SCALARS = {
    "string": st.sampled_from(["a", "b", ""]),
    "integer": st.integers(0, 5),
    "number": st.floats(0, 1),
    "boolean": st.booleans(),
}
_FORMATS = {
    "quantity": st.sampled_from(["1", "250m", 2]),
    "date-time": st.just("2026-01-01T00:00:00Z"),
    "int-or-string": st.sampled_from([80, "http"]),
}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([1.0, "1", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name"]), inner, max_size=3),
    max_leaves=6,
)


def values(schema: Schema, depth: int = 4) -> st.SearchStrategy[Json]:
    """Objects of a type, with a few of its fields."""
    match schema:
        case Scalar():
            return _FORMATS.get(schema.format, _SCALARS[schema.kind])
        case ListOf():
            return st.lists(values(schema.items, depth - 1), max_size=2 if depth > 0 else 0)
        case MapOf():
            return st.dictionaries(st.sampled_from(["x", "y/z"]), values(schema.items, depth - 1), max_size=2)
        case Record() if depth > 0:
            names = sorted(set(schema.fields) - {"managedFields"})

            def some(chosen: list[str]) -> st.SearchStrategy[Json]:
                keys = {key for key in ("name", "key", "type", "ip", "uid", "mountPath") if key in schema.fields}
                return st.fixed_dictionaries(
                    {name: values(schema.fields[name].type, depth - 1) for name in {*chosen, *keys}}
                )

            return st.lists(st.sampled_from(names), max_size=3).flatmap(some) if names else st.just({})
    return st.just({})
