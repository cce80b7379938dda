"""A sweep, here and on Ray.

A sweep is a set of runs: worlds x agents x seeds. In this tutorial you write one as a file, run a
part of it on this machine and the rest on Ray, and make its page. It takes two minutes and needs
`pip install '.[lab,ray]'` in a clone.
"""

#: ## The file
#:
#: Three agents in two mazes; `wall.txt` is a maze of your own.

from pathlib import Path

Path("wall.txt").write_text("S....\n.###.\n....G\n")
Path("mazes.toml").write_text("""\
about = "Does need help where the goal is near?"

[[runs]]
kind = "tabular"
worlds = ["dyna-maze", "wall.txt"]
agents = ["dyna-q", "ps", "ps-sr"]
trials = 200
episodes = 30
""")

#: `--dry-run` lists the runs and estimates their time from a measured speed.

# $ needreplay sweep mazes.toml --dry-run

#: ## On this machine
#:
#: Stop it whenever you like: the same command resumes.

# $ needreplay sweep mazes.toml --workers 2 --out mazes

#: Run again, it finds that everything is there:

# $ needreplay sweep mazes.toml --workers 2 --out mazes

#: ## On Ray
#:
#: The engine is one option. Without `--address` Ray starts on this machine; `--address auto` joins
#: the cluster that this machine belongs to. The results do not depend on the engine, byte for byte:

# $ needreplay sweep mazes.toml --engine ray --workers 2 --out mazes-ray

here = sorted(Path("mazes/runs").glob("*/metrics.csv"))
ray = sorted(Path("mazes-ray/runs").glob("*/metrics.csv"))
same = [a.read_bytes() == b.read_bytes() for a, b in zip(here, ray, strict=True)]
print(f"{sum(same)} of {len(same)} runs have the same bytes")

#: ## The page
#:
#: One offline page with curves, intervals and paired tests, and the numbers as CSV:

# $ needreplay report mazes

print(*sorted(path.name for path in Path("mazes/report").iterdir()))

#: [Sweeps](../sweeps.md) explains the file, the folder, the statistics and what a cluster needs.
