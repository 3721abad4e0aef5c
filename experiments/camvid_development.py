"""Frames of CamVid's training videos, for development.

    python experiments/camvid_development.py camvid camvid-development

Every fourth training frame of one video trains and every second one of another tests, 51 each. The tables of
docs/results.md test on other frames, so nothing that is chosen here has seen them.
"""

import shutil
import sys
from pathlib import Path

PARTS = {"train": ("0016E5", 4), "test": ("0006R0", 2)}  # the video, and how many frames apart


def main(source: str, made: str) -> None:
    for part, (video, step) in PARTS.items():
        for kind in ("images", "masks"):
            into = Path(made) / part / kind
            into.mkdir(parents=True, exist_ok=True)
            for file in sorted((Path(source) / "train" / kind).glob(f"{video}_*"))[::step]:
                shutil.copy(file, into)


if __name__ == "__main__":
    main(*sys.argv[1:])
