"""A transformer in training: its switches, costs, budget, plan and runs of earlier versions."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import nn
from torch.func import functional_call
from typer.testing import CliRunner

from prunus.backbone.held import hold_linears
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.file import read_bundle
from prunus.checkpoints.checkpoint import Checkpoint, Position
from prunus.cli.app import app
from prunus.config import BackboneChoice, Recipe
from prunus.evaluation.packing import pack_run
from prunus.evaluation.planning import plan_recipe
from prunus.graph.operations import Attention
from prunus.learning.learner import network_state
from prunus.masks.layout import convolutions
from prunus.measure.budget import whole_share
from prunus.measure.bundle_cost import bundle_costs
from prunus.methods.costs import dense_costs, network_costs
from prunus.methods.exact import Options
from prunus.methods.table import METHODS, adapt, choose_method
from prunus.recipes import parse_recipe
from prunus.runtime.predictor import Predictor
from prunus.training.run import open_run, start_run
from prunus.training.setup import as_trained
from tests.makers.tiny_training import tiny_identity, tiny_recipe

NAME, SIZE = "timm/test_vit", 32
WIDTH, HEADS, DEPTH, HIDDEN, TOKENS = 64, 2, 6, 192, 5  # 4 patches of 16 x 16 pixels, and the class token
CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}
BLOCK = WIDTH * 3 * WIDTH + WIDTH * WIDTH + 2 * WIDTH * HIDDEN  # weights: qkv, projection, MLP
PATCHES = WIDTH * 3 * 16 * 16


@pytest.fixture(scope="module")
def vit() -> Backbone:
    return load_backbone(BackboneChoice(name=NAME, weights="random", size=SIZE))


def _recipe(folder: Path, **changes: object) -> Recipe:
    content: dict[str, object] = {
        "backbone": {"name": NAME, "weights": "random", "size": SIZE},
        "domains": [str(folder)],
        "budget": 0.25,
        "training": {"epochs": 1, "batch_size": 4},
    }
    return parse_recipe(content | changes)


def test_the_costs_of_a_transformer_are_those_of_closed_formulas(vit: Backbone) -> None:
    costs = dense_costs(vit)
    assert len(costs.layers) == 1 + 4 * DEPTH
    assert costs.dense_weights() == PATCHES + DEPTH * BLOCK
    assert costs.num_kernels() == 3 * WIDTH + DEPTH * BLOCK
    attention = DEPTH * 2 * TOKENS**2 * WIDTH
    assert costs.product_macs == attention
    assert costs.dense_macs() == 4 * PATCHES + DEPTH * TOKENS * BLOCK + attention


def test_half_of_the_kernels_cost_half_of_the_macs_beside_the_products(vit: Backbone) -> None:
    net = adapt(vit, CLASSES, "exact", options=Options(granularity="kernel"))
    assert net.switches is not None
    with torch.no_grad():
        net.switches.scores_DM[:, ::2] = -1.0  # every layer has an even number
    costs = network_costs(net, vit.probe)
    assert costs.union() == 0.5
    assert costs.macs("a") - costs.product_macs == (costs.dense_macs() - costs.product_macs) / 2


def test_a_domain_computes_what_the_network_with_its_weights_set_to_zero_does(vit: Backbone) -> None:
    net = adapt(vit, CLASSES, "exact").eval()
    assert net.switches is not None
    assert net.switches.layout.granularity == "1x4"
    torch.manual_seed(0)
    with torch.no_grad():
        net.switches.scores_DM.copy_(torch.randn_like(net.switches.scores_DM))
        images = torch.randn(2, 3, SIZE, SIZE)
        zeroed = dict(vit.network.state_dict())
        row = net.switches.scores_DM[1] > 0
        for conv in convolutions(vit.network):  # by hand, block by block
            weight = zeroed[f"{conv.name}.weight"].clone()
            width = 4 if conv.kernel == (1, 1) else 1
            for output in range(weight.shape[0]):
                for start in range(0, weight.shape[1], width):
                    weight[output, start : start + width] *= float(row[0])
                    row = row[1:]
            zeroed[f"{conv.name}.weight"] = weight
        expected = net.heads[1](functional_call(vit.network.eval(), zeroed, (images,)))
        assert torch.allclose(net(images, "b"), expected, atol=1e-5)


def test_position_embeddings_and_tokens_are_trained_once_for_all_domains(vit: Backbone) -> None:
    net = adapt(vit, CLASSES, "exact").train()
    net(torch.randn(2, 3, SIZE, SIZE), "a").sum().backward()
    shared = {name: p for name, p in net.adapters[0].named_parameters() if p.grad is not None}
    assert {name.rpartition(".")[2] for name in shared} >= {"pos_embed", "cls_token"}
    assert not any("norm" in name for name in shared)
    own = [name for name, p in net.adapters[2].named_parameters() if p.grad is not None]
    assert own
    assert all("norm" in name and name.startswith("copies.sets.0.") for name in own)


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"early_exits"}))
def test_every_method_takes_a_step_on_a_transformer(method: str, vit: Backbone) -> None:
    net = adapt(vit, CLASSES, method).train()
    net(torch.randn(2, 3, SIZE, SIZE), "b").square().sum().backward()
    assert any(p.grad is not None and bool(p.grad.any()) for p in net.parameters())
    assert network_costs(net, vit.probe).dense_macs() == dense_costs(vit).dense_macs()


def test_a_trained_transformer_keeps_its_budget_exactly(make_domain: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_domain("flowers", train=4, size=(36, 36), validation=1)
    recipe = _recipe(folder)
    plan = plan_recipe(recipe)
    start_run(recipe, tmp_path / "run", device="cpu", use_cache=False)
    run = open_run(tmp_path / "run", "cpu")
    assert run.recipe.method is not None
    assert run.recipe.method.options["granularity"] == "1x4"  # as the run has chosen it
    dense, costs = dense_costs(run.backbone), bundle_costs(pack_run(run), granularity="1x4")
    limit = whole_share(0.25, dense.num_kernels())
    used = round(costs.union() * costs.num_kernels())
    assert limit - 4 < used <= limit
    assert limit - 8 < plan.kernels <= limit  # the least that stays may be single kernels or blocks
    assert plan.dense_macs == costs.dense_macs()
    # after its last keys and values, a file computes the class token alone
    others = TOKENS - 1
    assert costs.product_macs == dense.product_macs - 2 * WIDTH * TOKENS * others
    skipped = others * (WIDTH * WIDTH + 2 * WIDTH * HIDDEN) + 2 * WIDTH * TOKENS * others
    assert costs.dense_macs() == dense.dense_macs() - skipped
    run_costs = network_costs(run.net, run.backbone.probe)
    assert costs.own[0].bits == run_costs.own[0].bits  # of its switches


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["1x4", "channel"])
def test_a_limit_of_macs_is_that_of_what_the_file_computes(
    granularity: str, make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    limit = 600_000
    folder = make_domain("flowers", train=4, size=(36, 36), validation=1)
    recipe = _recipe(folder, budget={"macs": limit}, method={"name": "exact", "granularity": granularity})
    plan = plan_recipe(recipe)
    start_run(recipe, tmp_path / "run", device="cpu", use_cache=False)
    run = open_run(tmp_path / "run", "cpu")
    bundle = pack_run(run)
    # by hand: kernels in use, times the tokens that the file computes
    counted = 0
    for layer in bundle.manifest.convs:
        kernels = sum(row.bit_count() for row in bundle.packed_mask("flowers", layer).tolist())
        is_last = layer.startswith(f"blocks.{DEPTH - 1}.") and not layer.endswith("qkv")
        patch = layer.startswith("patch")
        counted += kernels * (4 * 16 * 16 if patch else 1 if is_last else TOKENS)
    for block, attention in enumerate(op for op in bundle.manifest.graph if isinstance(op, Attention)):
        queries = 1 if block == DEPTH - 1 else TOKENS
        counted += attention.heads * queries * TOKENS * 2 * (WIDTH // HEADS)
    assert counted == bundle_costs(bundle).macs("flowers")
    assert 0.95 * limit < counted <= limit
    assert 0.95 * limit < plan.domains["flowers"].macs <= limit
    assert plan.dense_macs == bundle_costs(bundle).dense_macs()


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["1x4", "channel"])
def test_a_transformer_goes_through_every_command_with_8_bits(
    granularity: str, make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_domain("flowers", train=12, size=(36, 36), validation=1)
    recipe, run, model, onnx = (tmp_path / name for name in ("recipe.toml", "run", "model.prunus", "onnx"))
    recipe.write_text(
        f'domains = ["{folder}"]\nbudget = 0.5\n[backbone]\nname = "{NAME}"\nweights = "random"\nsize = {SIZE}\n'
        f'[method]\nname = "exact"\ngranularity = "{granularity}"\n[training]\nepochs = 2\nbatch_size = 4\n'
    )
    assert "Done" in _command("train", recipe, "--out", run, "--device", "cpu")
    assert "operations compute with integers" in _command("prune", run, "--out", model, "--dtype", "int8")
    assert "budget kept" in _command("evaluate", model, "--data", folder.parent)
    assert "%" in _command("predict", model, folder / "test" / "a" / "0.png")
    assert "Checked with ONNX Runtime" in _command("export", model, "--onnx", onnx)

    bundle = read_bundle(model)
    assert "blocks.0.mlp.fc1" in bundle.manifest.convs
    trained = open_run(run, "cpu")
    files = sorted((folder / "test").glob("*/*.png"))
    pixels = np.stack([np.asarray(Image.open(file))[2:-2, 2:-2] for file in files])
    images = trained.preprocess["flowers"].normalize(pixels.transpose(0, 3, 1, 2))
    ours = Predictor(model).logits(images, domain="flowers")
    with torch.no_grad():
        theirs = trained.net(torch.from_numpy(images), "flowers").numpy()
    session = onnxruntime.InferenceSession(onnx / "flowers.onnx", providers=["CPUExecutionProvider"])
    (exported,) = session.run(None, {session.get_inputs()[0].name: images})
    scale = np.abs(theirs).max()
    assert np.abs(ours - theirs).max() < 0.1 * scale  # the noise of 8 bits
    assert np.abs(exported - ours).max() < 0.1 * scale


def _command(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_runs_without_switches_on_linear_layers_open_as_they_were_trained(vit: Backbone) -> None:
    recipe = tiny_recipe(method={"name": "union", "granularity": "kernel"})
    identity = tiny_identity(recipe)
    old = load_backbone(BackboneChoice(name=NAME, weights="random", size=SIZE))
    hold_linears(old.network)
    for backbone, layers in ((old, 1), (vit, 1 + 4 * DEPTH)):
        net = adapt(backbone, identity.classes, "union", options=choose_method(recipe).options)
        checkpoint = Checkpoint(Position(step=0, total_steps=1), identity, network_state(net))
        assert len(convolutions(as_trained(vit, checkpoint).network)) == layers
    assert all(type(module) is nn.Linear for name, module in vit.network.named_modules() if name.endswith("qkv"))
