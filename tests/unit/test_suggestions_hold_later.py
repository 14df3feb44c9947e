"""A suggested object keeps its bound in later days, or the report had shown the risk."""

from __future__ import annotations

import pytest
import yaml

from benchmarks.__main__ import BUDGET, Result
from benchmarks.fortnights import UNSERVED, outcome, run
from tests.support.nightly import only_at_night


@pytest.mark.parametrize("seed", [1, 5, 11])
def test_a_change_holds_in_the_next_days(seed: int) -> None:
    """Over eight days by chance and eight more. Without a reserve of the bound, these choices break it."""
    found = outcome(seed, days=8)

    assert found.took
    assert found.gain > 0.03
    assert found.worst_before <= UNSERVED
    assert found.holds


@only_at_night
@pytest.mark.timeout(3600)
def test_sixty_fortnights() -> None:
    """As in `python -m benchmarks fortnights`, and within its budget."""
    figures = run()

    assert (
        Result("fortnights", figures, yaml.safe_load(BUDGET.read_text())["fortnights"], {}).exceeded() == []
    )
