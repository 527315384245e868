"""The table of alternatives."""

from prunus.alternatives import finetuned, lora, ours, probe, pruned
from prunus.alternatives.alternative import Alternative
from prunus.measure.alternatives.results import OURS

ONNX = ("onnx", "onnxruntime", "onnxscript")

ALTERNATIVES: dict[str, Alternative] = {
    "finetuned": Alternative("a fine-tuned network per domain, ONNX Runtime int8", finetuned.make, ONNX),
    "probe": Alternative("frozen network, a linear probe per domain, ONNX Runtime int8", probe.make, ONNX),
    "pruned": Alternative(
        "one network trained by all domains, cut by Torch-Pruning to our MACs, ONNX Runtime int8",
        pruned.make,
        (*ONNX, "torch_pruning"),
    ),
    "lora": Alternative("frozen network, a LoRA adapter of PEFT per domain, float32", lora.make, (*ONNX, "peft")),
    OURS: Alternative("Prunus, float32", ours.make_float32, has_budget=True),
    f"{OURS}_int8": Alternative("Prunus, int8", ours.make_int8, has_budget=True),
}
