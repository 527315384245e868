"""One model file of Prunus for all domains."""

from prunus.alternatives.alternative import Answering, Shipped, Task
from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.evaluation.packing import pack_run
from prunus.quantizing.images import Draw
from prunus.quantizing.quantize import Settings, quantize
from prunus.quantizing.run_images import draw_run_images
from prunus.timing.machine import usable_processors

FILE = "model.prunus"


def make_float32(task: Task) -> Shipped:
    """Write the model file in float32."""
    return _ship(task, pack_run(task.ours), "float32")


def make_int8(task: Task) -> Shipped:
    """Write the model file in 8 bits, as `prunus prune --dtype int8` does."""
    bundle = pack_run(task.ours)
    draw = Draw(seed=task.recipe.seed)
    images = draw_run_images(task.recipe, bundle.manifest.domains, None, draw, lambda *_: None)
    settings = Settings(threads=usable_processors(), most_bytes=task.recipe.budget.bytes)
    return _ship(task, quantize(bundle, images, settings, lambda *_: None), "int8")


def _ship(task: Task, bundle: Bundle, dtype: DType) -> Shipped:
    write_bundle(task.folder / FILE, bundle, dtype)
    return Shipped(
        recipe=task.recipe,
        counted=(FILE,),
        answering={domain: Answering(file=FILE) for domain in task.classes},
        macs={domain: task.subject.costs.macs(domain) for domain in task.classes},
    )
