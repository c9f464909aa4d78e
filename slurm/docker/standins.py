"""Make the workers' stand-ins: programs that only take time, and GPUs that are links to nothing.

Run at the images' build: ``standins.py FOLDER``. The programs are the demo's; their times are divided by ``SPEED``,
since a container's clock runs as everybody's.
"""

import shutil
import sys
from pathlib import Path

from demo import workload

SPEED = 60
NAMES = ("python", "python3", "torchrun", "accelerate", "deepspeed")
GPUS = 4


def main(folder: Path) -> None:
    works = workload.load_works()
    for work in works.values():
        for name in [name for name in work if name == "startup_s" or name.startswith("seconds_per_unit_")]:
            work[name] /= SPEED
    (folder / "bin").mkdir(parents=True)
    shutil.copy(workload.HERE / "standin" / "standin.py", folder)
    (folder / "work.json").write_text(workload.standin_table(works))
    for name in NAMES:
        program = folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec /usr/bin/python3 -I -S {folder}/standin.py "$@"\n')
        program.chmod(0o755)
    for number in range(GPUS):
        (folder / f"gpu{number}").symlink_to("/dev/null")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
