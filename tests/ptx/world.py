import harness
from cases_conformance import OPTIONS  # noqa: F401


class World(harness.World):
    """write: into docs/conformance.md."""

    def __init__(self, work, variant=None, write=False):
        super().__init__(work, variant)
        self.write = write
