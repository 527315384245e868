"""The table of a plan."""

import io

from rich.console import Console

from prunus.measure.budget import Plan
from prunus.report.plan import plan_view
from tests.makers.plans import PLAN


def _lines(plan: Plan) -> list[str]:
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(plan_view(plan))
    return [" ".join(line.replace("│", " ").split()) for line in console.export_text().splitlines()]


def test_everything_that_is_planned_is_shown() -> None:
    lines = _lines(PLAN)
    assert lines[0] == "wrn14_2: 1 domain, method exact, float16; 1 epoch, 4,080 steps"
    assert "kernels 18,828 75,312 25.0 %" in lines
    assert "weights 169,452 677,808 25.0 %" in lines
    assert "file 360 kB 2.728 MB 13.2 %" in lines
    assert "classifiers 20,000 5.6 %" in lines
    assert "all 360,000" in lines
    assert "birds 20 1,000 12,403,152 49.2 %" in lines
    assert lines[-3:] == [
        "the limit that decides: 18,828 of 18,828 kernels",
        "other limits: 12.403 M of 20 M MACs for domain 'birds'",
        "a note",
    ]


def test_what_training_decides_is_shown_as_unknown() -> None:
    lines = _lines(PLAN.model_copy(update={"model_bytes": None, "bytes_by_part": {}, "limits": (), "binding": None}))
    assert "file unknown 2.728 MB -" in lines
    assert not any("limit" in line or "part of the file" in line for line in lines)


def test_the_source_is_marked() -> None:
    console = Console(width=120, file=io.StringIO(), record=True)
    console.print(plan_view(PLAN.model_copy(update={"source": "birds"})))
    assert "birds (source)" in console.export_text()
