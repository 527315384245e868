"""A model file in float32, whatever the type of its numbers: what it would be without rounding to 8 bits."""

from prunus.bundle.bundle import Bundle

CODED = ("scale/", "coding/")  # arrays that only 8-bit files have


def as_float32(bundle: Bundle) -> Bundle:
    """Return a bundle whose weights are the file's numbers in float32, and whose operations compute with floats."""
    arrays = {name: array for name, array in bundle.arrays.items() if not name.startswith((*CODED, "head/"))}
    arrays |= {f"kernels/{layer}": bundle.kernels(layer) for layer in bundle.manifest.convs}
    for domain in bundle.domains:
        arrays[f"head/{domain}/weight"], arrays[f"head/{domain}/bias"] = bundle.head(domain)
    return Bundle(bundle.manifest.with_graph(bundle.manifest.graph, ()), arrays)
