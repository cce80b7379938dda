"""Without torch, what needs it says so in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NO_TORCH = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
"""
DEEP_AGENT = """
import needlab
import needreplay
needreplay.ReplayBuffer
for package, name in ((needlab, "DeepAgent"), (needreplay, "NeedModel")):
    assert name not in package.__all__
    try:
        getattr(package, name)
    except needreplay.NeedReplayError as error:
        print(error)
"""


def test_a_missing_torch_is_named_with_the_command_that_installs_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH + DEEP_AGENT], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("pip install 'needreplay[deep]'") == 2


def test_a_missing_numba_is_named_with_the_extra_that_brings_it() -> None:
    code = NO_TORCH.replace("torch", "numba") + (
        "import needlab, needreplay\n"
        "needreplay.ReplayBuffer, needlab.MazeEnv\n"
        "try: needlab.PrioritizedSweeping\n"
        "except needreplay.NeedReplayError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'needreplay[lab]'" in done.stdout


def test_the_command_line_says_it_without_a_traceback(tmp_path: Path) -> None:
    program = (
        "from needlab.cli import main\n"
        "sys.exit(main(['train', '--world', 'CartPole-v1', '--steps', '10', '--out', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH + program, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'needreplay[deep]'" in done.stderr
    assert "Traceback" not in done.stderr
