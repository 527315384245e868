"""The page about eight bits shows what was measured, and only that."""

import inspect
import json
import re
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import prunus
from benchmarks.int8_accuracy import MOST_SHARE
from benchmarks.int8_speed import OVER_FLOAT32, TARGETS, TWO_THREADS
from prunus.bundle.eight_bits.bounds import MOST_LOSS, MOST_MEAN_LOSS, MOST_TURNED
from prunus.measure.eight_bits.held_out import FEW_IMAGES
from prunus.measure.eight_bits.summary import CALIBRATION, EightBits
from prunus.quantizing.images import MOST_BYTES, Draw
from prunus.quantizing.quantize import Settings
from prunus.recipes import load_recipe
from prunus.samples import bundled

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "eight-bits.md").read_text()
TEXT = " ".join(PAGE.split())
TITLES = {"largest": "largest", "percentile": "percentile", "mse": "least error"}
NUMBERS = {4: "four", 5: "five"}


def _result(name: str) -> Any:  # noqa: ANN401  # JSON
    return json.loads((ROOT / "docs" / "results" / "benchmarks" / f"{name}.json").read_text())


def _signed(points: float) -> str:
    return f"{points:+.2f}".replace("-", "−")


def test_the_example_is_what_the_command_prints() -> None:
    found = EightBits.model_validate(_result("int8_demo")["eight_bits"])
    assert found.notes() == []
    assert found.within is True
    block = next(block for block in re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    assert block.splitlines()[1:-1] == found.in_words()


def test_the_first_commands_can_be_copied_after_the_demo() -> None:
    folder = inspect.signature(prunus.demo).parameters["out"].default
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:.*\n\t\S*prunus demo$", makefile, re.MULTILINE)  # into the default folder
    block = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    assert block.startswith(f"prunus prune {folder} --out eight.prunus --dtype int8\n")
    assert f"`make demo` trains a model of five bundled domains in the folder `{folder}`." in TEXT
    assert f'prunus.prune("{folder}", "eight.prunus", dtype="int8")' in PAGE
    recipe = load_recipe(bundled("recipes") / "demo.toml")
    assert sorted(choice.name for choice in recipe.domains) == list(_result("int8_demo")["eight_bits"]["held_out"])
    assert {choice.path.partition(":")[0] for choice in recipe.domains} == {"demo"}  # found without --data


def test_the_images_that_choose_codings_are_as_many_as_the_page_says() -> None:
    assert f"{Draw().calibration} training images of the domain are run through the network" in TEXT
    assert f"fewer than {CALIBRATION} images of each domain chose the codings" in TEXT
    assert MOST_BYTES == 2**29
    assert "Fewer images are drawn if those of all domains would take more than 512 MB." in TEXT


def test_the_bounds_are_those_of_the_gate() -> None:
    assert f"| loss of accuracy, mean over the domains | {100 * MOST_MEAN_LOSS:.1f} points |" in TEXT
    assert f"| loss of accuracy, each domain | {100 * MOST_LOSS:.0f} point |" in TEXT
    assert f"| images that turn, each domain | {100 * MOST_TURNED:.0f} % |" in TEXT
    assert f"domains with fewer than {FEW_IMAGES}" in TEXT
    assert (
        f"{100 * MOST_MEAN_LOSS:.1f} points in the mean of the draws, {100 * MOST_LOSS:.0f} point in a domain" in TEXT
    )
    assert f"and {MOST_SHARE} of the bytes" in TEXT


def test_the_demo_loses_as_little_as_wanted() -> None:
    found = _result("int8_accuracy")
    gains = sorted(-100 * row["mean_lost"] + 0.0 for row in found["files"])
    assert f"{gains[0]:.2f} to {gains[-1]:.2f} points higher" in TEXT
    most = max(row["most_lost"] for row in found["files"])
    assert most <= 1 / 300 + 1e-9  # one image
    assert f"loses more than {100 * most:.2f} points" in TEXT
    shares = {f"{row['bytes'] / found['float32_bytes']:.3f}" for row in found["files"]}
    assert all(f"{share} of the bytes" in TEXT for share in shares)
    assert len(found["files"]) == 3
    assert found["missed"] == []


def test_the_rules_are_compared_as_they_were_measured() -> None:
    rows = _result("int8_accuracy")["rules"]
    for row in rows:
        cells = " | ".join(_signed(100 * lost) for lost in (mean(row["mean_lost"]), row["most_lost"]))
        biases = "moved" if row["moves_biases"] else "kept"
        error = f"{100 * row['logits_error']:.3f} %"
        assert f"| {row['images']} | {TITLES[row['ranges']]} | {biases} | {cells} | {error} |" in PAGE
    means = [100 * mean(row["mean_lost"]) for row in rows]
    draws = [100 * (max(row["mean_lost"]) - min(row["mean_lost"])) for row in rows]
    assert f"two rows differ by at most {max(means) - min(means):.2f} points in the mean" in TEXT
    assert f"the draws of one row by up to {max(draws):.2f}" in TEXT
    assert max(draws) > max(means) - min(means)  # accuracy does not tell the rules apart
    errors = {
        images: {
            (row["ranges"], row["weights"], row["moves_biases"]): row["logits_error"]
            for row in rows
            if row["images"] == images
        }
        for images in (16, 64, 256)
    }
    for rule, value in errors[64].items():
        ranges, _, moves_biases = rule
        assert errors[16][rule] > value
        assert (errors[256][rule] < value) is not moves_biases  # only where biases are kept
        assert all(found[rule] == found[ranges, "largest", moves_biases] for found in errors.values())  # the same codes
    moved, kept = (("mse", "largest", moves_biases) for moves_biases in (True, False))
    assert 0.14 < 1 - errors[16][moved] / errors[16][kept] < 0.19  # a sixth
    assert 0.45 < 1 - errors[64][moved] / errors[64][kept] < 0.55  # a half
    default = Settings().ranges
    assert TITLES[default] == "least error"
    rivals = [(ranges, "largest", True) for ranges in TITLES if ranges != default]
    assert all(found[default, "largest", True] > min(map(found.__getitem__, rivals)) for found in errors.values())
    assert "no measurement here prefers it: its error of the logits is never the smallest." in TEXT
    assert "It was not compared with the others on networks with SiLU or hard-swish." in TEXT


@pytest.mark.parametrize(
    ("name", "most_mean"), [("nine", 0.003), ("efficientnet_b0", 0.004), ("mobilenetv3", 0.003), ("deit_tiny", 0.003)]
)
def test_other_networks_lose_what_the_table_says_and_no_domain_more_than_a_point(name: str, most_mean: float) -> None:
    found = _result(f"int8_accuracy_{name}")
    files = found["files"]
    assert len(files) == 3
    cells = [
        ", ".join(_signed(100 * row["mean_lost"]) for row in files),
        _signed(100 * max(row["most_lost"] for row in files)),
        ", ".join(f"{row['integers']} of {row['operations']}" for row in files),
        f"{max(row['bytes'] for row in files) / 1e6:.2f} MB",
        f"{max(row['bytes'] for row in files) / found['float32_bytes']:.3f}",
    ]
    assert f"| `{found['backbone']}` | {' | '.join(cells)} |" in PAGE
    assert max(row["most_lost"] for row in files) <= 0.01 + 1e-9
    assert max(row["mean_lost"] for row in files) <= most_mean
    assert mean(row["mean_lost"] for row in files) <= 0.003
    missed = [] if name == "nine" else ["bytes"]
    assert [word for text in found["missed"] for word in ("bytes", "points") if word in text] == missed
    assert name != "nine" or max(row["bytes"] for row in files) <= 2.4e6


def test_what_is_said_of_single_networks_was_measured() -> None:
    efficient, deit = (_result(f"int8_accuracy_{name}") for name in ("efficientnet_b0", "deit_tiny"))
    first = efficient["files"][0]
    assert f"{100 * first['accuracy']['clothing']['float32']:.0f} % of the test images of `clothing` right" in TEXT
    assert (first["integers"], len(first["wide"])) == (2, 1)
    assert f"in one draw the mean loses {100 * max(row['mean_lost'] for row in efficient['files']):.2f}" in TEXT
    right = mean(row["float32"] for row in deit["files"][0]["accuracy"].values())
    assert f"DeiT-Tiny has {100 * right:.1f} % of the test images right in floats" in TEXT


def test_training_with_rounded_numbers_is_recommended_as_far_as_it_was_shown_to_help() -> None:
    lost, plain = _result("int8_accuracy_mobilenetv3_quantized"), _result("int8_accuracy_mobilenetv3")
    means = [100 * row["mean_lost"] for row in lost["files"]]
    assert f"lost {min(means):.2f} to {max(means):.2f} points" in TEXT
    assert f"a domain up to {100 * max(row['most_lost'] for row in lost['files']):.2f}" in TEXT
    assert min(means) > 100 * max(row["mean_lost"] for row in plain["files"])  # it did not help
    training = " ".join((ROOT / "docs" / "training.md").read_text().split())
    for page in (TEXT, training):
        assert re.search(r"did not help on the (\[one network\]\(#other-networks\)|one network) that was tried", page)
    networks = [row for row in PAGE.splitlines() if re.match(r"\| `", row)]
    assert f"lists what {NUMBERS[len(networks) + 1]} networks lost" in training  # and the demo


def test_the_speeds_are_those_that_were_measured() -> None:
    found = _result("int8_speed")
    keys = ("onnxruntime_int8_ms", "int8_ms", "speed_up", "float32_ms", "over_float32", "two_threads_ms")
    for name, rows in found["networks"].items():
        for row in rows:
            cells = " | ".join(f"{row[key]:.2f}" for key in (*keys, "gain_of_two_threads"))
            assert f"| {name} | {row['sparsity']:.0%} | {cells} |" in PAGE
    assert found["missed"] == []
    targets = TARGETS["wrn28_4"], TARGETS["timm/resnet50"], TARGETS["timm/mobilenetv2_100"]
    wide, large, small = (list(shares.values()) for shares in targets)
    assert f"{wide[0]}, {wide[1]} and {wide[2]} times as fast as ONNX Runtime for wrn28_4; {large[0]}," in TEXT
    assert f"{large[1]} and {large[2]} times for resnet50; {small[0]} times for mobilenetv2_100" in TEXT
    assert dict.fromkeys(("wrn28_4", "timm/resnet50"), 2.2) == OVER_FLOAT32
    assert dict.fromkeys((0.5, 0.75), 1.6) == TWO_THREADS


def test_the_runs_that_were_repeated_miss_only_what_the_page_says() -> None:
    quiet, also_quiet, busy = _result("int8_speed_repeated")
    assert quiet["missed"] == also_quiet["missed"] == []
    missed = [f"timm/resnet50 at {share}: gain_of_two_threads {gain}" for share, gain in (("50%", 1.52), ("75%", 1.56))]
    assert busy["missed"] == [f"{text} of 1.6" for text in missed]
    assert "missed theirs for resnet50, with 1.52 and 1.56" in TEXT
    assert {run["machine"] for run in (quiet, also_quiet, busy)} == {_result("int8_speed")["machine"]}
    assert "(family 26, " in quiet["machine"]


def test_another_processor_misses_only_what_the_page_says() -> None:
    runs = _result("int8_speed_intel")
    assert len(runs) == 4
    first, second, third, fourth = (run["networks"]["wrn28_4"][-1]["over_float32"] for run in runs)
    speeds = f"{first:.2f}, {second:.2f}, {third:.2f} and {fourth:.2f}"
    least = OVER_FLOAT32["wrn28_4"]
    assert [speed < least for speed in (first, second, third, fourth)].count(True) == 3
    said = f"Three of four runs missed one target: {speeds} times the speed of float32 for wrn28_4 with 90 % off"
    assert f"{said} (target: {least})" in TEXT
    missed = Counter(missed.rpartition(" of ")[0].rpartition(" ")[0] for run in runs for missed in run["missed"])
    assert missed == {"wrn28_4 at 90%: over_float32": 3}
    assert {"(family 6, model 167)" in run["machine"] for run in runs} == {True}


def _spread(runs: list[Any], name: str, key: str, most: float = 1.0) -> str:
    """Return the least and the largest number of a key in all runs of a network with at most so many kernels off."""
    found = [row[key] for run in runs for row in run["networks"][name] if row["sparsity"] <= most]
    first, last = f"{min(found):.2f}", f"{max(found):.2f}"
    return first if first == last else f"{first} to {last}"


def test_what_many_and_far_cores_make_of_two_threads_is_what_was_measured() -> None:
    many, far = _result("int8_speed_sixteen_cores"), _result("int8_speed_far_cores")
    assert "(family 6, model 207), 2 of 16 cores" in many["machine"]
    gain = "gain_of_two_threads"
    wide, large, small = ("wrn28_4", "timm/resnet50", "timm/mobilenetv2_100")
    missed = [missed.rpartition(" of ")[0].rpartition(" ")[0] for missed in many["missed"]]
    assert missed == ["timm/resnet50 at 90%: speed_up", f"{small} at 75%: {gain}"]
    assert f"was {many['networks'][large][-1]['speed_up']:.2f} instead of 4.0 times as fast as ONNX" in TEXT
    assert f"two threads were {_spread([many], small, gain)} times as fast as one for mobilenetv2_100" in TEXT
    assert len(far) == 3
    first, second, third = (_spread(far, name, gain, 0.75) for name in (wide, large, small))
    assert f"{first} times for wrn28_4 with 50 and 75 % off, {second} for resnet50, and {third} for" in TEXT
    assert all("gain_of_two_threads" in missed for run in far for missed in run["missed"])  # everything else was kept


def test_the_speeds_on_an_older_processor_are_those_that_were_measured() -> None:
    found = _result("int8_speed_zen4")
    assert "(family 25, " in found["machine"]
    part = TEXT[TEXT.index("It missed 2.2 times") :]
    assert re.findall(r"\((\d\.\d\d)\)", part) == [
        found["missed"][index].split()[-3] for index in (1, 0, 2)
    ]  # in the order of the page
    assert len(found["missed"]) == 3


def test_no_damaged_8_bit_file_was_accepted_by_mistake() -> None:
    fuzzed = _result("fuzz_model_file_int8")
    assert fuzzed["dtype"] == "int8"
    assert fuzzed["count"] == sum(sum(counts.values()) for counts in fuzzed["outcomes"].values()) == 10_000
    allowed = {"refused", "the same model", "another model", "another model, too large to run here"}
    assert {outcome for counts in fuzzed["outcomes"].values() for outcome in counts} <= allowed
    page = " ".join((ROOT / "docs" / "model-file.md").read_text().split())
    assert f"([results](results/benchmarks/fuzz_model_file_int8.json): {fuzzed['count']:,} files, none failed)" in page
