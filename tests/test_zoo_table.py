"""The figures on the page of networks are those of the stored results."""

import json
from pathlib import Path
from typing import Any

from benchmarks.transformer_speed import TARGETS
from benchmarks.zoo_networks import NETWORKS
from benchmarks.zoo_row import in_a_word
from benchmarks.zoo_table import BEGIN, END, ENOUGH, is_equal, markdown
from prunus.errors import NoFileError

DOCS = Path(__file__).parents[1] / "docs"


def _result(name: str) -> Any:  # noqa: ANN401  # JSON
    return json.loads((DOCS / "results" / f"{name}.json").read_text())


def _page() -> str:
    return " ".join((DOCS / "zoo.md").read_text().split())


def _missing(*shown: str) -> list[str]:
    """Return what the page does not say."""
    page = _page()
    return [text for text in shown if text not in page]


def _power(number: float) -> str:
    digits, _, exponent = f"{number:.1e}".partition("e")
    return f"{digits} · 10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def test_the_page_shows_the_stored_rows_and_enough_of_them_go_all_the_way() -> None:
    rows = _result("zoo")["networks"]
    assert [row["network"] for row in rows] == list(NETWORKS)
    page = (DOCS / "zoo.md").read_text()
    table = page[page.index(BEGIN) + len(BEGIN) : page.index(END)].strip()
    assert table == markdown(rows)
    assert len(rows) >= 30
    assert sum(is_equal(row) for row in rows) >= ENOUGH


def test_what_is_unusual_about_an_operation_is_its_word_in_the_table() -> None:
    words = {
        "'softmax_3' of something else than scores of attention": "softmax outside attention",
        "'permute_1' on scores of attention": "layers on attention scores",
        "'linear' with the weights of a layer that is not called": "weights used without their layer",
        "'normalize_2'": "operation normalize",
    }
    found = {text: in_a_word(NoFileError(f"the operation {text} is not among those of a graph")) for text in words}
    assert found == words


def test_the_page_shows_the_accuracies_that_were_measured() -> None:
    result = _result("transformer_accuracy")
    rows = {row["method"]: row for row in result["rows"]}
    exact, finetuned = rows["exact"], rows["finetune"]
    kernels, differences = result["kernels"], result["largest_difference"]
    assert kernels["used"] == kernels["limit"]
    behind = {
        name: 100 * (finetuned["accuracies"][name] - accuracy) / len(exact["accuracies"])
        for name, accuracy in exact["accuracies"].items()
    }
    fruits = behind.pop("fruits")
    assert len(behind) == 4
    assert (
        _missing(
            f"--epochs {result['epochs']}` trains",
            f"the same {exact['steps']} steps",
            f"| one model, `exact` | {100 * exact['mean_accuracy']:.1f} % "
            f"| 25 % ({kernels['used']:,}, exactly the limit) | {100 * exact['macs_ratio']:.0f} % "
            f"| {result['model_bytes'] / 1e6:.1f} MB |",
            f"| five fine-tuned networks | {100 * finetuned['mean_accuracy']:.1f} % | 100 % | 100 % "
            f"| {finetuned['stored_bytes'] / 1e6:.0f} MB |",
            f"| guessing | {100 * result['chance']:.1f} % |",
            f"by {_power(differences['without_torch'])} of the largest logit on {differences['images']} test images",
            f"models by {_power(differences['onnx'])}.",
            f"is {fruits + sum(behind.values()):.1f} points behind",
            f"`fruits` alone costs it {fruits:.1f} points of the mean",
            f"the other four together favour it by {-sum(behind.values()):.1f}.",
        )
        == []
    )


def test_the_page_shows_the_speeds_that_were_measured() -> None:
    result = _result("transformer_speed")
    for kind, title in (("float32", "float32"), ("int8", "8 bits")):
        ours = result["ms"][f"Prunus {kind}"]
        theirs = min(ms for name, ms in result["ms"].items() if name.startswith(f"{kind},"))
        assert _missing(f"| {title} | {ours:.1f} ms | {theirs:.1f} ms | {theirs / ours:.2f} | {TARGETS[kind]}") == []
    assert _missing(f"{100 * result['off']:.0f} % of the blocks") == []
    assert bool(result.get("openvino")) != ("which it was not in this run" in _page())
    others = [run["ratios"] for run in _result("transformer_speed_repeated")]
    first, second = [f"{run['float32']:.2f}" for run in others], [f"{run['int8']:.2f}" for run in others]
    said = f"gave {' and '.join(first)} times in float32, and {' and '.join(second)} times in 8 bits"
    assert _missing(said) == []
    assert all(run[kind] >= TARGETS[kind] for run in (result["ratios"], *others) for kind in TARGETS)


def test_the_page_shows_what_removed_heads_gain() -> None:
    result = _result("dense_heads")
    weights = result["weights"]
    milliseconds = {name: number + 1e-9 for name, number in result["milliseconds"].items()}  # the page rounds .05 up
    assert (
        _missing(
            f"| whole | {weights['whole'] / 1e6:.2f} M | {milliseconds['whole']:.1f} ms |",
            f"| half of the heads and neurons | {weights['half'] / 1e6:.2f} M | {milliseconds['half']:.1f} ms, "
            f"{result['times_as_fast']:.2f} times as fast |",
        )
        == []
    )
