"""`python -m demo.svg [SCENARIO]`: plays a scenario once and draws its picture below docs."""

import asyncio
import io
import re
import sys
from pathlib import Path

from rich.console import Console

from demo.clusters import Clusters
from demo.embedded import EmbeddedStage
from demo.scenarios import DEFAULT, SCENARIOS
from demo.view import OBSERVED, LiveView

DOCS = Path(__file__).parents[1] / "docs"
# The file, and the observation at which the picture is taken.
PICTURES = {
    DEFAULT: ("demo.svg", "nothing-scaled-on-missing-data"),
    "burst": ("burst.svg", "cloud-drained-first"),
    "hub-down": ("hub-down.svg", "scaled-without-hub"),
}
WIDTH, HEIGHT = 96, 32
FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Camera(LiveView):
    """A live view that takes one picture, at an observation."""

    taken = ""

    def __init__(self, peak: int, screen: Console, name: str) -> None:
        super().__init__(peak, [], screen, samples_per_column=SCENARIOS[name].samples_per_column)
        self._title = "make demo" if name == DEFAULT else f"make demo SCENARIO={name}"
        self._moment = PICTURES[name][1]

    def say(self, text: str) -> None:
        """Shows the text, and takes the picture at the moment."""
        super().say(text)
        if text == OBSERVED + self._moment:
            console = Console(record=True, file=io.StringIO(), width=WIDTH, height=HEIGHT)
            console.print(self.render())
            svg = console.export_svg(title=self._title, unique_id="demo")
            self.taken = FONT_FACES.sub("", svg)  # without references to web fonts


async def main(name: str) -> int:
    """Plays the scenario once; returns 1 if the moment was not observed."""
    scenario = SCENARIOS[name]
    world: Clusters = scenario.world(EmbeddedStage(members=scenario.members, load=scenario.load), print)
    try:
        await world.start()
        # The live view itself is discarded.
        screen = Console(file=io.StringIO(), width=WIDTH, height=HEIGHT, force_terminal=True)
        camera = Camera(world.load.peak, screen, name)
        try:
            await scenario.play(world, camera.say, camera.show).run(once=True)
        finally:
            camera.close()
    finally:
        await world.end()
    file, moment = PICTURES[name]
    if not camera.taken:
        print(f"not observed: {moment}", file=sys.stderr)
        return 1
    (DOCS / file).write_text(camera.taken, encoding="utf-8")
    print(DOCS / file)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else DEFAULT)))
