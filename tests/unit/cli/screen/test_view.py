"""What keys do, without a terminal."""

from msgspec.structs import replace

from kit.told_agent import node_state, pod_row
from pykubelet.cli.screen.pod_lines import node_line, pod_lines
from pykubelet.cli.screen.view import Close, Leave, Open, Shell, View, heard, pressed, reading, text_lines

STATE = node_state(*(pod_row(f"pod-{each}") for each in range(10)), pod_row("other", namespace="prod"))
VIEW = heard(View(), [node_line(STATE)], pod_lines(STATE))


def after(view: View, *keys: str, height: int = 4) -> View:
    for key in keys:
        view, _ = pressed(view, key, 80, height)
    return view


def selected(view: View) -> str:
    return view.pod.name if view.pod else ""


def test_moving_stays_within_the_list() -> None:
    assert selected(VIEW) == "pod-0"
    assert selected(after(VIEW, "down", "j", "up")) == "pod-1"
    assert selected(after(VIEW, "up")) == "pod-0"
    assert selected(after(VIEW, "pagedown")) == "pod-4"
    assert selected(after(VIEW, "G", "down")) == "other"
    assert selected(after(VIEW, "end", "home")) == "pod-0"


def test_who_is_selected_stays_so_when_others_come_and_go() -> None:
    view = after(VIEW, "down", "down")
    fewer = [line for line in pod_lines(STATE) if line.name != "pod-0"]
    assert selected(heard(view, view.nodes, fewer)) == "pod-2"
    without = [line for line in pod_lines(STATE) if line.name != "pod-2"]
    assert selected(heard(view, view.nodes, without)) == "pod-3", "the next takes its place"
    assert heard(view, view.nodes, []).selected == ""


def test_the_order_turns_round_when_asked_for_again() -> None:
    assert after(VIEW, "C").order == "cpu"
    assert after(VIEW, "N").shown[0].name == "other", "by name it is already"
    assert after(VIEW, "C", "C").backwards
    assert not after(VIEW, "C", "C", "M").backwards


def test_words_are_typed_kept_and_dropped() -> None:
    view = after(VIEW, "/", "p", "r", "o", "q", "backspace")
    assert (view.words, view.is_typing, selected(view)) == ("pro", True, "other")
    assert [each.name for each in after(view, "d", "enter").shown] == ["other"]
    assert not after(view, "enter").is_typing
    assert len(after(view, "enter", "escape").shown) == 11
    assert after(view, "escape").words == ""
    assert after(view, "\x07", "resize").words == "pro", "only what can be seen is a word"


def test_namespaces_take_turns() -> None:
    assert [after(VIEW, *"n" * times).namespace for times in range(4)] == ["", "default", "prod", ""]


def test_keys_ask_for_what_there_is_of_a_pod() -> None:
    pod = VIEW.pod
    assert pod is not None
    for key, action in {
        "enter": Open("explain", pod), "l": Open("logs", pod, "app"), "e": Open("events", pod), "d": Open("yaml", pod),
        "s": Shell(pod, "app"), "q": Leave(), "x": None,
    }.items():  # fmt: skip
        assert pressed(VIEW, key, 80, 4)[1] == action
    nobody = heard(View(), [], [])
    assert [pressed(nobody, key, 80, 4)[1] for key in ("enter", "l", "s", "down")] == [None] * 4


def test_a_text_is_read_and_left() -> None:
    view = reading(after(VIEW, "enter"), [str(each) for each in range(20)])
    assert view.text is not None
    moved = after(view, "down", "pagedown").text
    assert moved is not None
    assert moved.offset == 5
    ended = after(view, "G", "down").text
    assert ended is not None
    assert ended.offset == 16
    assert pressed(view, "q", 80, 4)[1] == Close()
    assert after(view, "escape").text is None
    assert after(VIEW, "?", "q").text is None


def test_a_log_follows_until_somebody_looks_back() -> None:
    view = reading(after(VIEW, "l"), [str(each) for each in range(20)])
    assert view.text is not None
    assert view.text.follows
    back = after(view, "up")
    assert back.text is not None
    assert (back.text.follows, back.text.offset) == (False, 15)
    for again in (after(back, "f"), after(back, "G")):
        assert again.text is not None
        assert again.text.follows


def test_the_next_container_s_log_is_one_key_away() -> None:
    pod = replace(pod_lines(STATE)[0], containers=("one", "two"))
    view = after(heard(View(), [], [pod]), "l")
    assert pressed(view, "c", 80, 4)[1] == Open("logs", pod, "two")
    assert pressed(after(view, "c"), "c", 80, 4)[1] == Open("logs", pod, "one")
    assert pressed(after(view, "c"), "s", 80, 4)[1] == Shell(pod, "two")


def test_long_lines_count_as_often_as_they_are_seen() -> None:
    view = reading(after(VIEW, "enter"), ["x" * 200])
    assert view.text is not None
    assert len(text_lines(view.text, 80)) == 3
