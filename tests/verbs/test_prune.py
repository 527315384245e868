"""A written file says whether it keeps its budget, and what to do if it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import prunus
from prunus.arrays import DType
from prunus.bundle.file import write_bundle
from prunus.errors import BundleError
from prunus.measure.bundle_cost import bundle_costs
from prunus.verbs.prune import find_problems, limits_of_file
from tests.conftest import write_domain
from tests.makers.graph_bundles import random_bundle, varied_graph


def _write(path: Path, budget: object, dtype: DType = "float32", method: str = "exact", step: int = 8) -> Path:
    bundle = random_bundle(varied_graph(0), 12, ("birds", "flowers"))
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
    bundle = random_bundle(varied_graph(0), 12)
    write_bundle(file, bundle)  # without a recipe
    assert limits_of_file(file) == ()
    assert bundle_costs(bundle).union() > 0.01
    assert not any("budget of" in problem for problem in find_problems(file))


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
