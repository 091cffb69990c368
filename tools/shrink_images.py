"""Pictures of the documentation at a third of their size: `python tools/shrink_images.py docs/images/*.png`.

They are written with 256 colours; a picture that has a palette already stays as it was.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image


def shrink(path: Path) -> None:
    """Write a PNG again with a palette of 256 colours and without transparency, if that makes it smaller."""
    with Image.open(path) as image:
        if image.mode == "P":
            return
        on_white = Image.new("RGBA", image.size, "white")
        on_white.alpha_composite(image.convert("RGBA"))
    smaller = path.with_suffix(".part")
    colours = on_white.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    colours.save(smaller, "PNG", optimize=True)
    if smaller.stat().st_size < path.stat().st_size:
        smaller.replace(path)
    else:
        smaller.unlink()


def main(paths: list[str]) -> None:
    """Shrink each file and print its size before and after, in bytes."""
    for path in map(Path, paths):
        before = path.stat().st_size
        shrink(path)
        print(path.name, before, "->", path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
