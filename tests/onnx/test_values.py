"""Operations that compute with integers stand between nodes that decode and encode."""

from prunus.graph.operations import Operation
from prunus.onnx.graph import OnnxGraph
from prunus.onnx.values import CodedValues, FloatValues
from tests.makers.graph_bundles import convolution, make_graph


class _Codes:
    """Names of codings, and limits for some operations."""

    def __init__(self, limited: tuple[int, ...] = ()) -> None:
        self.limited = limited

    def coding(self, value: int) -> tuple[str, str]:
        """Name a coding."""
        return f"s{value}", f"z{value}"

    def limits(self, number: int, operation: Operation) -> tuple[str, str] | None:
        """Name limits."""
        return ("low", "high") if number in self.limited else None


GRAPH = make_graph(
    convolution("a", [0], (4, 3), activation="relu"),
    {"op": "affine", "inputs": (1,), "activation": "silu"},
    {"op": "add", "inputs": (1, 2), "activation": "gelu"},
    {"op": "mean", "inputs": (3,)},
)


def _written(values: CodedValues, onnx: OnnxGraph) -> list[tuple[str, tuple[str, ...], str]]:
    for number, operation in enumerate(GRAPH):
        values.add(number, operation, onnx.node("X", *values.inputs(number, operation)))
    values.features()
    return [(node.op, node.inputs, node.output) for node in onnx.nodes]


def test_codes_are_made_and_read_where_integers_and_floats_meet() -> None:
    onnx = OnnxGraph()
    nodes = _written(CodedValues(onnx, {0, 1, 3}, _Codes()), onnx)
    assert nodes == [
        ("QuantizeLinear", ("images", "s0", "z0"), "codes.0"),
        ("DequantizeLinear", ("codes.0", "s0", "z0"), "DequantizeLinear_1"),
        ("X", ("DequantizeLinear_1",), "X_2"),
        ("QuantizeLinear", ("X_2", "s1", "z1"), "codes.1"),
        ("DequantizeLinear", ("codes.1", "s1", "z1"), "DequantizeLinear_4"),  # read by an integer and a float operation
        ("X", ("DequantizeLinear_4",), "X_5"),
        ("QuantizeLinear", ("X_5", "s2", "z2"), "codes.2"),
        ("DequantizeLinear", ("codes.2", "s2", "z2"), "DequantizeLinear_7"),
        ("X", ("DequantizeLinear_4", "DequantizeLinear_7"), "floats.3"),
        ("QuantizeLinear", ("floats.3", "s3", "z3"), "codes.3"),
        ("DequantizeLinear", ("codes.3", "s3", "z3"), "DequantizeLinear_10"),
        ("X", ("DequantizeLinear_10",), "X_11"),
        ("QuantizeLinear", ("X_11", "s4", "z4"), "codes.4"),
        ("Flatten", ("codes.4",), "Flatten_13"),
        ("DequantizeLinear", ("Flatten_13", "s4", "z4"), "DequantizeLinear_14"),
    ]


def test_codes_are_clipped_where_an_activation_limits_them() -> None:
    onnx = OnnxGraph()
    nodes = _written(CodedValues(onnx, {0}, _Codes(limited=(0,))), onnx)
    assert nodes[3:5] == [
        ("QuantizeLinear", ("X_2", "s1", "z1"), "QuantizeLinear_3"),
        ("Clip", ("QuantizeLinear_3", "low", "high"), "codes.1"),
    ]
    assert nodes[-1] == ("Flatten", ("floats.4",), "Flatten_9")


def test_a_convolution_with_floats_does_not_look_like_one_with_integers() -> None:
    onnx = OnnxGraph()
    graph = make_graph(convolution("a", [0], (4, 3)), convolution("b", [1], (4, 4)))
    values = CodedValues(onnx, {0}, _Codes())
    for number, operation in enumerate(graph):
        values.add(number, operation, onnx.node("X", *values.inputs(number, operation)))
    operators = [node.op for node in onnx.nodes]
    assert operators[:3] == ["QuantizeLinear", "DequantizeLinear", "X"]
    assert operators[3:] == ["QuantizeLinear", "Cast", "Cast", "Sub", "Mul", "X"]


def test_only_activations_that_are_limits_are_taken_from_an_operation() -> None:
    values = CodedValues(OnnxGraph(), {0, 1}, _Codes())
    plain = [values.plain(number, operation) for number, operation in enumerate(GRAPH)]
    assert [getattr(operation, "activation", None) for operation in plain] == ["none", "silu", "gelu", None]
    assert FloatValues(OnnxGraph()).plain(0, GRAPH[0]) is GRAPH[0]


def test_an_operation_that_changes_nothing_has_a_name_of_its_own() -> None:
    onnx = OnnxGraph()
    values = CodedValues(onnx, (), _Codes())
    values.add(0, GRAPH[0], onnx.node("X", "images"))
    values.add(1, GRAPH[1], *values.inputs(1, GRAPH[1]))
    assert [(node.op, node.inputs, node.output) for node in onnx.nodes] == [
        ("X", ("images",), "floats.1"),
        ("Identity", ("floats.1",), "floats.2"),
    ]
