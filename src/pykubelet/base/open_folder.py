"""A folder for whoever a pod runs as, where nobody else gets to: it is open, and the one around it is closed."""

import os


def make_open_folder(path: str) -> None:
    """What is there already is left as it is. Raises OSError. Blocks."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, 0o777)  # noqa: S103 - the folder around it is closed
