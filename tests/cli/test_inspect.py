"""`prunus inspect`: its tables, without a model file."""

import pytest
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.measure.inspection import Inspection, LayerContent

LONG = "stages.0.blocks.0.a_very_long_name_of_a_layer.conv"


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> "Show":
    return Show(monkeypatch)


class Show:
    """Runs the command for a number of domains in a terminal of some width."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, domains: tuple[str, ...], width: int) -> str:
        usage = dict.fromkeys(domains, 0.25)
        layer = LayerContent(name=LONG, num_kernels=200, kept=150, channels=(10, 20), usage=usage)
        content = Inspection(
            backbone="wrn14_2",
            dtype="float16",
            domains=dict.fromkeys(domains, 3),
            layers=(layer,),
            sharing={name: dict.fromkeys(domains, 0.5) for name in domains},
            bytes_by_part={"weights": 3000, "masks": 1000},
            provenance={},
        )
        self._monkeypatch.setattr("prunus.verbs.inspect.inspect", lambda _: content)
        result = CliRunner().invoke(app, ["inspect", "m.prunus"], env={"COLUMNS": str(width)})
        assert result.exit_code == 0, result.output
        return result.output


def test_layers_sharing_and_bytes_are_tables(show: Show) -> None:
    output = show(("birds", "flowers"), 120)
    rows = [line.split() for line in output.splitlines()]
    assert output.startswith("m.prunus: wrn14_2, float16, 2 domains\n")
    assert [LONG, "200", "150", "25", "%", "25", "%"] in rows
    assert ["birds", "50", "%", "50", "%"] in rows
    assert ["weights", "3,000", "75.0", "%"] in rows
    assert ["all", "4,000"] in rows


def test_in_a_narrow_terminal_domains_are_numbered_and_names_cut_at_the_front(show: Show) -> None:
    output = show(("characters", "clothing", "fashion", "fruits", "signs"), 80)
    assert "domains: 1 characters, 2 clothing, 3 fashion, 4 fruits, 5 signs" in output
    assert "…" in output
    assert "name_of_a_layer.conv" in output
    assert LONG not in output
    assert max(map(len, output.splitlines())) <= 80
