"""A written file says whether it keeps its budget, and what to do if it does not."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from typer.testing import CliRunner

import prunus
from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.record import KEY, EightBitRecord, Measured
from prunus.bundle.file import read_bundle, write_bundle
from prunus.cli.app import app
from prunus.cli.wording import on_command_line
from prunus.errors import AccuracyWarning, BundleError, DataError, TrainingError, UnknownNameError
from prunus.measure.bundle_cost import bundle_costs
from prunus.quantizing import quantize as quantizing
from prunus.training.run import open_run
from prunus.verbs.prune import find_problems, limits_of_file, watched_by
from tests.conftest import write_domain
from tests.makers.graph_bundles import random_bundle, varied_graph


def _write(  # what its recipe says, and how it was written
    path: Path, budget: object, dtype: DType = "float32", method: str = "exact", step: int = 8, dense: int = 2**20
) -> Path:
    bundle = random_bundle(varied_graph(0), 12, ("birds", "flowers"))
    bundle = replace(bundle, manifest=bundle.manifest.model_copy(update={"dense_bytes": dense}))
    recipe = {"backbone": "wrn14_2", "domains": ["birds", "flowers"], "method": method, "budget": budget}
    bundle.manifest.provenance.update({"recipe": recipe, "step": step, "total_steps": 8})
    write_bundle(path, bundle, dtype)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.prunus"


def test_a_file_within_its_limits_has_no_problem_with_them(file: Path) -> None:
    _write(file, {"kernels": 1.0, "bytes": "1 GB", "macs": "1 G"})
    limits = limits_of_file(file)
    assert [(limit.name, limit.domain) for limit in limits] == [
        *(("kernels", None), ("bytes", None)),
        *(("macs", "birds"), ("macs", "flowers")),
    ]
    assert all(limit.kept for limit in limits)
    assert limits[1].used == file.stat().st_size
    assert not any("budget" in problem and "over" in problem for problem in find_problems(file))


def test_a_file_over_its_limits_says_by_how_much_and_what_to_do(file: Path) -> None:
    _write(file, {"bytes": 1000})
    missed = f"the model is over its budget ({limits_of_file(file)[0]})"
    assert find_problems(file)[0] == f"{missed}; train the run again, with a slightly smaller budget"
    _write(file, {"bytes": 1000}, dtype="float16")
    assert find_problems(file)[0].endswith(
        "the recipe plans for the argument dtype='float32', and this file is float16"
    )
    _write(file, {"bytes": 1000}, step=3)
    assert find_problems(file)[0].endswith("stopped at step 3 of 8; continue it with: prunus.resume('RUN')")
    assert find_problems(file, Path("runs/a"))[0].endswith("continue it with: prunus.resume('runs/a')")


def test_the_papers_methods_are_judged_by_the_usage_of_their_domains(file: Path) -> None:
    _write(file, 0.01, method="ba2")
    assert [limit.domain for limit in limits_of_file(file)] == ["birds", "flowers"]
    assert find_problems(file)[0].startswith("the run is over its budget of 1.0% of the kernels (birds ")
    share = max(bundle_costs(read_bundle(file)).usage(name) for name in ("birds", "flowers"))
    _write(file, share, method="ba2")
    assert not any("over its budget" in problem for problem in find_problems(file))
    _write(file, share, method="union")  # whose domains together use more than any of them
    assert [limit.domain for limit in limits_of_file(file) if not limit.kept] == [None]
    assert "(all domains together " in find_problems(file)[0]
    bundle = random_bundle(varied_graph(0), 12)
    write_bundle(file, bundle)  # without a recipe
    assert limits_of_file(file) == ()
    assert bundle_costs(bundle).union() > 0.01
    assert not any("budget of" in problem for problem in find_problems(file))


@pytest.mark.parametrize(
    ("method", "budget", "remedy"),
    [
        ("exact", 1.0, "set a smaller budget, or use the argument dtype='float16'"),
        ("ba2", 1.0, "set a smaller budget, train for more epochs, or use the argument dtype='float16'"),
        ("bn", 0.25, "use the argument dtype='float16'"),
    ],
)
def test_a_file_larger_than_the_dense_network_names_what_makes_it_smaller(
    method: str, budget: float, remedy: str, file: Path
) -> None:
    _write(file, budget, method=method, dense=100)
    problem = find_problems(file)[-1]
    assert problem.startswith("the file is larger than the dense network")
    assert problem.endswith(f"; {remedy}")


@pytest.mark.slow
def test_a_file_has_the_type_that_the_recipe_or_the_caller_names(tmp_path: Path) -> None:
    recipe = prunus.parse_recipe(
        {
            "backbone": {"name": "wrn14_2", "size": 16, "resize": 18},
            "domains": [str(write_domain(tmp_path / "birds"))],
            "method": "ba2",
            "dtype": "float16",
            "training": {"epochs": 1},
        }
    )
    run = prunus.train(recipe, tmp_path / "run", device="cpu")
    assert prunus.inspect(prunus.prune(run, tmp_path / "a.prunus")).dtype == "float16"
    assert prunus.inspect(prunus.prune(run, tmp_path / "b.prunus", "float32")).dtype == "float32"
    with pytest.raises(BundleError, match="is a folder"):
        prunus.prune(run, tmp_path)
    with pytest.raises(UnknownNameError, match="unknown dtype 'int4'"):
        prunus.prune(run, tmp_path / "c.prunus", cast("DType", "int4"))


FLOATS: tuple[DType, ...] = ("float32", "float16", "bfloat16")
OLD_RUN = Path(__file__).parents[1] / "golden" / "checkpoint_format_3" / "run"  # of two demo domains


@pytest.mark.slow
def test_a_run_becomes_an_8_bit_file_that_serves_and_says_what_it_loses(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    with watched_by(lambda doing, domain, done, total: seen.append((doing, domain))):
        small = prunus.prune(OLD_RUN, tmp_path / "small.prunus", "int8")
    whole = prunus.prune(OLD_RUN, tmp_path / "whole.prunus", "float32")
    assert small.stat().st_size < 0.4 * whole.stat().st_size
    inspection = prunus.inspect(small)
    assert inspection.dtype == "int8"
    found = inspection.eight_bits
    assert found is not None
    assert found.calibration == 64
    assert found.integers > 0
    assert list(found.held_out) == list(inspection.domains)
    assert sum(row.floats - row.int8 for row in found.held_out.values()) / len(found.held_out) <= 0.0031
    assert {doing for doing, _ in seen} - {"ranking"} == {
        "decoding",
        "calibrating",
        "correcting",
        "measuring 8 bits of",
    }
    assert {domain for doing, domain in seen if doing != "ranking"} == set(inspection.domains)
    assert "compute with integers" in prunus.card(small)
    assert sum(inspection.bytes_by_part.values()) == small.stat().st_size
    again = tmp_path / "again.prunus"
    shown = CliRunner().invoke(app, ["prune", str(OLD_RUN), "--out", str(again), "--dtype", "int8"])
    assert shown.exit_code == 0, shown.output
    assert f"8 bits: {found.integers} of {found.operations} operations compute with integers" in shown.stdout
    count = sum(row.images for row in found.held_out.values())
    validation = sum(row.validation or 0 for row in found.held_out.values())
    counted = f"{count - validation:,} training images that chose no coding and {validation:,} validation images"
    assert f"mean accuracy on {counted}: ".replace(",", "") in shown.stdout.replace(",", "")
    notes = [line for line in shown.stdout.splitlines() if line.startswith("note: ")]
    assert notes == [f"note: {note}" for note in found.notes()]
    assert again.read_bytes() == small.read_bytes()


@pytest.mark.slow
def test_without_training_images_8_bits_are_refused_and_the_way_out_is_named(tmp_path: Path) -> None:
    run = Path(shutil.copytree(OLD_RUN, tmp_path / "run"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"8-bit numbers are chosen with the training images .*argument data='DIR', or"):
        prunus.prune(run, tmp_path / "m.prunus", "int8", data=tmp_path / "empty")
    assert not (tmp_path / "m.prunus").exists()


@pytest.mark.slow
def test_a_budget_in_bytes_is_kept_by_the_8_bit_file(tmp_path: Path) -> None:
    recipe = prunus.parse_recipe(
        {
            "backbone": {"name": "wrn14_2", "size": 16, "resize": 18},
            "domains": [str(write_domain(tmp_path / name, train=12)) for name in ("birds", "flowers")],
            "method": "exact",
            "budget": {"bytes": "200 kB"},
            "dtype": "int8",
            "training": {"epochs": 1},
        }
    )
    planned = prunus.plan(recipe)
    run = prunus.train(recipe, tmp_path / "run", device="cpu", observers=[])
    model = prunus.prune(run, tmp_path / "m.prunus")
    (limit,) = limits_of_file(model)
    assert limit.kept
    assert limit.used == model.stat().st_size > 0.9 * limit.limit
    assert planned.model_bytes is not None
    assert planned.model_bytes <= limit.limit
    assert prunus.inspect(model).dtype == "int8"
    measured = prunus.evaluate(run).model_bytes
    assert measured is not None
    assert measured >= limit.used  # a plan of the largest that the file can be


def _of_floats(tmp_path: Path, *names: str) -> Path:
    """Write a model file of floats, and images of its domains in the folder `data`; its recipe names the first one."""
    bundle = random_bundle(varied_graph(0), 12, names)
    for name, entry in bundle.manifest.domains.items():
        write_domain(tmp_path / "data" / name, classes=entry.classes, train=12)
    recipe = {"backbone": "wrn14_2", "domains": names[:1], "method": "exact", "budget": 1.0}
    bundle.manifest.provenance.update({"recipe": recipe, "step": 8, "total_steps": 8})
    write_bundle(tmp_path / "floats.prunus", bundle)
    return tmp_path / "floats.prunus"


@pytest.mark.filterwarnings("ignore::prunus.errors.BudgetWarning")
def test_a_model_file_of_floats_is_written_with_another_dtype(tmp_path: Path) -> None:
    source = _of_floats(tmp_path, "birds", "flowers")
    half = prunus.prune(source, tmp_path / "half.prunus", "float16")
    assert prunus.inspect(half).dtype == "float16"
    eight = prunus.prune(source, tmp_path / "eight.prunus", "int8", tmp_path / "data")
    found = prunus.inspect(eight)
    assert (found.dtype, list(found.domains)) == ("int8", ["birds", "flowers"])
    assert found.eight_bits is not None
    assert list(found.eight_bits.held_out) == ["birds", "flowers"]
    assert eight.stat().st_size < source.stat().st_size
    named: tuple[tuple[DType | None, str], ...] = ((None, "int8"), ("int8", "int8"), ("float32", "float32"))
    for dtype, wanted in named:
        with pytest.raises(BundleError) as refused:
            prunus.prune(eight, tmp_path / "again.prunus", dtype)
        assert on_command_line(str(refused.value)) == (
            f"{eight} is an 8-bit model file, and only files of floats are written again; write one from its run with: "
            f"prunus prune RUN --out model.prunus --dtype {wanted}, or remove a domain of this one with: "
            "prunus remove-domain FILE NAME --out smaller.prunus"
        )


@pytest.mark.parametrize("dtype", [np.int8, np.dtype("int8"), ["int8"], 8, "int4"])
def test_what_is_no_dtype_is_refused_with_those_that_are(dtype: object, tmp_path: Path) -> None:
    source = _of_floats(tmp_path, "birds")
    with pytest.raises(UnknownNameError, match=r"unknown dtype .* known: (int8, )?float32"):
        prunus.prune(source, tmp_path / "m.prunus", cast("DType", dtype))


def test_8_bits_that_lose_more_than_they_may_are_written_with_a_warning_that_names_the_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _of_floats(tmp_path, "birds", "flowers")
    rows = {"birds": Measured(512, 0.9492, 0.8008, 90, 0), "flowers": Measured(512, 0.9492, 0.9492, 2, 48)}
    record = EightBitRecord(calibration=64, accuracy=rows)
    monkeypatch.setattr(quantizing, "_recorded", lambda decision, images: _with_record(decision.bundle, record))
    lost = r"8 bits lose more accuracy than they may in birds \(410 of 512 are right \(in floats 486; 90 in only one"
    with pytest.warns(AccuracyWarning, match=rf"eight.prunus: {lost} of the two\)\); a file of float16 loses less"):
        prunus.prune(source, tmp_path / "eight.prunus", "int8", tmp_path / "data")
    options = ["--out", str(tmp_path / "again.prunus"), "--dtype", "int8", "--data", str(tmp_path / "data")]
    shown = CliRunner().invoke(app, ["prune", str(source), *options])
    assert shown.exit_code == 0, shown.output
    assert re.search(rf"^note: {lost}", shown.stdout, re.MULTILINE)
    assert prunus.inspect(tmp_path / "again.prunus").eight_bits.within is False  # type: ignore[union-attr]
    assert f"note: {lost}" not in shown.stderr  # said once
    inspected = " ".join(CliRunner().invoke(app, ["inspect", str(tmp_path / "again.prunus")]).stdout.split())
    assert re.search(rf"note: {lost}", inspected)
    assert "8 bits lose more accuracy than they may in birds" in prunus.card(tmp_path / "again.prunus")


def _with_record(bundle: Bundle, record: EightBitRecord) -> Bundle:
    provenance = bundle.manifest.provenance | {KEY: record.written()}
    return Bundle(bundle.manifest.model_copy(update={"provenance": provenance}), bundle.arrays)


@pytest.mark.parametrize("planned", ["float32", "int8"])
def test_a_model_file_keeps_its_dtype_whatever_its_recipe_planned(planned: DType, tmp_path: Path) -> None:
    source = _of_floats(tmp_path, "birds")
    bundle = read_bundle(source)
    bundle.manifest.provenance["recipe"]["dtype"] = planned
    for dtype in FLOATS:
        write_bundle(source, bundle, dtype)
        copy = prunus.prune(source, tmp_path / "copy.prunus")
        assert read_bundle(copy).dtype == dtype
        assert copy.stat().st_size == source.stat().st_size


def test_images_for_a_file_of_floats_are_refused_and_not_ignored(tmp_path: Path) -> None:
    source = _of_floats(tmp_path, "birds")
    out = tmp_path / "m.prunus"
    with pytest.raises(DataError) as refused:
        prunus.prune(source, out, "float16", tmp_path / "data")
    said = "images are needed for int8 only, and this file gets float16; leave out --data, or use --dtype int8"
    assert on_command_line(str(refused.value)) == said
    with pytest.raises(DataError, match="this file gets float32"):
        prunus.prune(source, out, data=tmp_path / "data")
    assert not out.exists()


def test_a_model_file_is_not_written_over_and_needs_images_and_a_recipe_for_8_bits(tmp_path: Path) -> None:
    source = _of_floats(tmp_path, "birds", "flowers")
    with pytest.raises(BundleError, match="is the file to read; name another one to write"):
        prunus.prune(source, source, "float16")
    with pytest.raises(DataError, match=r"the model file does not record where those of 'birds' are; .*data='DIR'"):
        prunus.prune(source, tmp_path / "m.prunus", "int8")
    bundle = read_bundle(source)
    bundle.manifest.provenance.clear()
    write_bundle(source, bundle)
    with pytest.raises(BundleError, match="does not record its recipe and cannot be written as int8"):
        prunus.prune(source, tmp_path / "m.prunus", "int8", tmp_path / "data")
    assert not (tmp_path / "m.prunus").exists()


def test_a_file_that_was_written_from_a_file_names_no_file_as_a_run(file: Path) -> None:
    _write(file, {"bytes": 1000}, step=3)
    assert find_problems(file, file)[0].endswith("continue it with: prunus.resume('RUN')")


def test_a_file_is_no_run(file: Path) -> None:
    file.write_text("")
    with pytest.raises(TrainingError, match="is a file, not the folder of a run"):
        open_run(file)
