"""`.venv/bin/python -m demo.svg`: runs the demo and draws docs/demo.svg, a picture of `make demo`."""

import asyncio
import io
import re
import sys
from pathlib import Path

from rich.console import Console

from demo.embedded import EmbeddedStage
from demo.story import Story
from demo.view import OBSERVED, LiveView
from demo.world import World

PICTURE = Path(__file__).parents[1] / "docs" / "demo.svg"
MOMENT = "nothing-scaled-on-missing-data"
WIDTH, HEIGHT = 96, 32
FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Camera(LiveView):
    """A live view that takes one picture, at the observation MOMENT."""

    taken = ""

    def say(self, text: str) -> None:
        """Shows the text, and takes the picture at the observation MOMENT."""
        super().say(text)
        if text == OBSERVED + MOMENT:
            console = Console(record=True, file=io.StringIO(), width=WIDTH, height=HEIGHT)
            console.print(self.render())
            svg = console.export_svg(title="make demo", unique_id="demo")
            self.taken = FONT_FACES.sub("", svg)  # without references to web fonts


async def main() -> int:
    """Plays the story once; returns 1 if MOMENT was not observed."""
    world = World(EmbeddedStage(), print)
    try:
        await world.start()
        # The live view itself is discarded.
        screen = Console(file=io.StringIO(), width=WIDTH, height=HEIGHT, force_terminal=True)
        camera = Camera(world.load.peak, [], screen)
        try:
            await Story(world, world.rules, camera.say, camera.show).run(once=True)
        finally:
            camera.close()
    finally:
        await world.end()
    if not camera.taken:
        print(f"not observed: {MOMENT}", file=sys.stderr)
        return 1
    PICTURE.write_text(camera.taken, encoding="utf-8")
    print(PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
