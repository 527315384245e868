"""What the catalog must hold, from the tables that train; run as a program, it writes the file."""

from importlib.resources import files
from pathlib import Path

from prunus.backbone.zoo import ZOO
from prunus.catalog import CATALOG, Catalog
from prunus.files import write_atomically
from prunus.methods.describing import describe_backbone, describe_methods


def make_catalog() -> Catalog:
    """Describe all methods and all bundled backbones."""
    return Catalog(tuple(describe_methods()), tuple(map(describe_backbone, ZOO)))


if __name__ == "__main__":
    write_atomically(Path(str(files("prunus") / "catalog.json")), CATALOG.dump_json(make_catalog(), indent=2) + b"\n")
