"""A file is replaced as a whole, by one writer at a time, and nothing is left of a killed one."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needlab.core.tables import write_bytes
from needreplay._core.errors import NeedReplayError
from needreplay._core.files import open_to_read, replacing

posix = pytest.mark.skipif(sys.platform == "win32", reason="no such files there")


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"one", b"two"):
        with replacing(path) as file:
            file.write(content)
            assert (path.read_bytes() if path.exists() else None) != content
        assert path.read_bytes() == content
    with pytest.raises(KeyboardInterrupt), replacing(path):
        raise KeyboardInterrupt
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "aim").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "aim")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(NeedReplayError, match="only a regular file"):
            write_bytes(tmp_path / name, b"new")
    assert (tmp_path / "aim").read_bytes() == b"kept"
    assert (tmp_path / "link").is_symlink()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(NeedReplayError, match=r"there is no folder '.*missing'; make it"):
        write_bytes(tmp_path / "missing" / "file", b"new")


def test_names_of_unfinished_files_cannot_be_guessed(tmp_path: Path) -> None:
    names: set[str] = set()
    for _ in range(3):
        with replacing(tmp_path / "file"):
            names.update(path.name for path in tmp_path.glob(".*.part"))
    assert len(names) == 3


def test_threads_take_turns(tmp_path: Path) -> None:
    """Each writes its own byte in many pieces; every file that is ever seen has one of them."""
    path, seen, at_once = tmp_path / "file", [], []

    def write(byte: bytes) -> None:
        for _ in range(10):
            with replacing(path) as file:
                for _ in range(50):
                    file.write(byte * 100)
                    file.flush()
                at_once.append(len(list(tmp_path.glob(".*.part"))))
            seen.append(path.read_bytes())

    threads = [threading.Thread(target=write, args=(byte,)) for byte in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 30
    assert all(len(content) == 5_000 and len(set(content)) == 1 for content in seen)
    if sys.platform != "win32":
        assert set(at_once) == {1}


@posix
def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    code = (
        "import sys, time\n"
        "from needreplay._core.files import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half')\n"
        "    file.flush()\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
    )
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", code, path], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.glob(".*.part"))) == 1  # the second removed what the first left
    with replacing(tmp_path / "another") as file:
        file.write(b"whole")
    assert len(list(tmp_path.glob(".*.part"))) == 1  # not this file's
    with replacing(path) as file:
        file.write(b"whole")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["another", "file"]


def _interrupted(line: int, action: Callable[[], None]) -> bool:
    """Send Ctrl-C at the ``line``-th line that runs of ``files.py``; whether there was one."""
    left = line

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        # Python ignores what is raised while an object is deleted.
        if not frame.f_code.co_filename.endswith("files.py") or frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left <= 0


@posix
def test_ctrl_c_at_any_line_leaves_neither_parts_nor_descriptors(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def write() -> None:
        with replacing(target) as file:
            file.write(b"new")

    write()
    lines = 0
    opened = len(list(Path("/dev/fd").iterdir()))
    while True:
        target.write_bytes(b"old")
        lines += 1
        if not _interrupted(lines, write):
            break
        gc.collect()
        assert list(tmp_path.iterdir()) == [target], lines
        assert target.read_bytes() in (b"old", b"new")
        assert len(list(Path("/dev/fd").iterdir())) == opened, lines
    assert lines > 20


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_what_cannot_be_read_is_named_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("pipe", "named pipe"), ("none", "no such file"), (".", "directory")):
        with pytest.raises(NeedReplayError, match=words):
            open_to_read(tmp_path / name)
