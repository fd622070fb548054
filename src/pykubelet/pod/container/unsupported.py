"""What a pod may ask for, and this version cannot give."""

from pykubelet.base.errors import Invalid


class Unsupported(Invalid):
    """A container that needs this is not started: better not to run at all than to run without it."""

    def __init__(self, who: str, needs: str) -> None:
        super().__init__(f"{who} needs {needs}, which this version cannot provide yet")
