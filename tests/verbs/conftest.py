"""A small model of an own network, to which the tests of a module add domains."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import prunus
from prunus.backbone.own import registry
from tests.makers.leaf_models import SETTINGS, register_leaf_net, write_images, write_model


@pytest.fixture(scope="module")
def registered() -> Iterator[None]:
    """Register the network under which the runs of a module are trained."""
    patch = pytest.MonkeyPatch()
    patch.setattr(registry, "_REGISTERED", {})
    register_leaf_net()
    yield
    patch.undo()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, registered: None) -> Path:
    return write_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def cars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("new") / "cars", 9)


@pytest.fixture(scope="module")
def larger(base: Path, cars: Path) -> Path:
    return prunus.add_domain(base, cars, base.with_name("larger.prunus"), settings=SETTINGS, observers=[])
