"""Linear classifiers on frozen features, against the conditions that only the best one fulfils."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prunus.arrays import Doubles, Integers
from prunus.data.loading import ImageSet
from prunus.errors import TrainingError
from prunus.images import crop_windows
from prunus.learning import frozen_features
from prunus.learning.feed import DomainData
from prunus.learning.frozen_features import (
    PENALTY,
    LinearClassifier,
    fit_frozen_features,
    fit_linear,
    frozen_accuracies,
    frozen_classifiers,
    read_classifiers,
    write_classifiers,
)
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_net

LARGER = PREPROCESS.model_copy(update={"resize": 12})


def _problem(images: int = 60, features: int = 5, classes: int = 3) -> tuple[Doubles, Integers]:
    """Draw overlapping classes, with features of very different scales."""
    rng = np.random.default_rng(0)
    labels = np.arange(images) % classes
    centres = rng.normal(size=(classes, features))
    scales = 10.0 ** np.arange(features) / 100
    return (rng.normal(size=(images, features)) + centres[labels] + 3) * scales, labels


def _gradient(weight_KF: Doubles, bias_K: Doubles, scaled_NF: Doubles, labels_N: Integers) -> tuple[Doubles, Doubles]:
    """Return the gradient of the mean cross-entropy plus the penalty, by its formula."""
    logits_NK = scaled_NF @ weight_KF.T + bias_K
    powers_NK = np.exp(logits_NK - logits_NK.max(1, keepdims=True))
    error_NK = powers_NK / powers_NK.sum(1, keepdims=True) - np.eye(len(bias_K))[labels_N]
    count = len(labels_N)
    return error_NK.T @ scaled_NF / count + PENALTY / count * weight_KF, error_NK.mean(0)


def test_the_classifier_is_the_optimum_of_the_penalized_loss_on_standardized_features() -> None:
    features_NF, labels_N = _problem()
    linear = fit_linear(torch.from_numpy(features_NF), torch.from_numpy(labels_N), 3)
    mean_F, std_F = features_NF.mean(0), features_NF.std(0)
    weight_KF = linear.weight_KF.numpy() * std_F
    bias_K = linear.bias_K.numpy() + linear.weight_KF.numpy() @ mean_F
    of_weight, of_bias = _gradient(weight_KF, bias_K, (features_NF - mean_F) / std_F, labels_N)
    assert np.abs(of_weight).max() < 1e-5  # the loss is strictly convex: only one point has no gradient
    assert np.abs(of_bias).max() < 1e-5
    assert np.abs(weight_KF).max() > 0.1


def test_scale_and_offset_of_features_do_not_matter_and_constant_ones_are_harmless() -> None:
    features_NF, labels_N = _problem()
    labels = torch.from_numpy(labels_N)
    plain = torch.from_numpy(features_NF).float()
    moved = torch.cat([plain * 1000 - 7, torch.full((len(plain), 1), 3.0)], 1)
    logits = [fit_linear(x, labels, 3).logits(x) for x in (plain, moved)]
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-3, atol=1e-3)


def test_one_class_and_one_image_can_be_fitted() -> None:
    assert fit_linear(torch.ones(1, 4), torch.zeros(1, dtype=torch.int64), 1).logits(torch.ones(2, 4)).shape == (2, 1)


def _data(validation: bool = True) -> list[DomainData]:
    """Make domains whose classes differ in brightness."""
    sets = [_images(seed, len(classes)) for seed, classes in enumerate(CLASSES.values())]
    return [
        DomainData(name, LARGER, True, images, images if validation else None)
        for name, images in zip(CLASSES, sets, strict=True)
    ]


def _images(seed: int, classes: int) -> ImageSet:
    labels = np.arange(24) % classes
    noise = np.random.default_rng(seed).integers(0, 30, (24, 3, 12, 12))
    return ImageSet((noise + 70 * labels[:, None, None, None]).astype(np.uint8), labels)


def test_features_are_those_of_centre_crops_in_the_unmodified_backbone() -> None:
    net = tiny_net("finetune")
    with torch.no_grad():
        for parameter in net.adapter_list.parameters():
            parameter.fill_(7.0)  # what training changes is not looked at
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    data = _data()
    classifiers = fit_frozen_features(net, data)
    accuracies = frozen_accuracies(net, data, classifiers)
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    net.eval()
    ((top, left, _),) = crop_windows(12, 9, 1)
    for domain in data:
        cut = torch.from_numpy(domain.train.images[:, :, top : top + 9, left : left + 9]).float() / 255
        with torch.no_grad():
            features_NF = net.network(cut)
        expected = fit_linear(features_NF, torch.from_numpy(domain.train.labels), len(CLASSES[domain.name]))
        torch.testing.assert_close(classifiers[domain.name].weight_KF, expected.weight_KF, rtol=1e-2, atol=1e-3)
        answers = expected.logits(features_NF).argmax(1).numpy()
        assert accuracies[domain.name] == (answers == domain.train.labels).mean() > 0.9


def test_domains_without_validation_images_have_classifiers_and_no_accuracy() -> None:
    net = tiny_net()
    data = _data(validation=False)
    classifiers = fit_frozen_features(net, data)
    assert list(classifiers) == ["a", "b"]
    assert frozen_accuracies(net, data, classifiers) == {}


def test_of_large_domains_images_of_all_classes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def fit(features_NF: torch.Tensor, labels_N: torch.Tensor, num_classes: int) -> LinearClassifier:
        seen.append(sorted(labels_N.tolist()))
        return LinearClassifier(torch.zeros(num_classes, features_NF.shape[1]), torch.zeros(num_classes))

    monkeypatch.setattr(frozen_features, "fit_linear", fit)
    monkeypatch.setattr(frozen_features, "MOST_IMAGES", 6)
    images = ImageSet(np.zeros((30, 3, 12, 12), np.uint8), np.arange(30) // 10)  # sorted by class, as folders are
    fit_frozen_features(tiny_net(), [DomainData("b", LARGER, True, images, None)])
    assert seen == [[0, 0, 1, 1, 2, 2]]


def test_classifiers_are_kept_in_a_file_and_compute_the_same(tmp_path: Path) -> None:
    net = tiny_net()
    data = _data()
    classifiers = fit_frozen_features(net, data)
    write_classifiers(tmp_path / "file", classifiers)
    again = read_classifiers(tmp_path / "file")
    assert list(again) == ["a", "b"]
    assert torch.equal(again["b"].weight_KF, classifiers["b"].weight_KF)
    net.eval()
    probabilities = frozen_classifiers(net, tmp_path / "file")["b"](data[1].train.images, LARGER, 1)
    answers = probabilities.argmax(1)
    assert (answers == data[1].train.labels).mean() == frozen_accuracies(net, data, classifiers)["b"]


def test_a_missing_file_has_no_classifiers_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    assert read_classifiers(tmp_path / "none") == {}
    write_classifiers(tmp_path / "file", {"a": LinearClassifier(torch.zeros(2, 3), torch.zeros(2))})
    whole = (tmp_path / "file").read_bytes()
    flipped = bytearray(whole)
    flipped[-3] ^= 1
    for damage in (whole[:-4], bytes(flipped)):
        (tmp_path / "file").write_bytes(damage)
        with pytest.raises(TrainingError, match="holds no readable classifiers"):
            read_classifiers(tmp_path / "file")


def test_classifiers_of_an_earlier_version_have_no_checksum(tmp_path: Path) -> None:
    save_file({"a/weight": torch.ones(2, 3), "a/bias": torch.zeros(2)}, tmp_path / "file")
    assert read_classifiers(tmp_path / "file")["a"].weight_KF.sum() == 6


def _pixels(seed: int) -> DomainData:
    rng = np.random.default_rng(seed)
    labels = np.arange(30) % len(CLASSES["a"])
    images = ImageSet(rng.integers(0, 256, (30, 3, 12, 12), dtype=np.uint8), labels)
    return DomainData("a", LARGER, mirror=False, train=images, validation=None)


def test_runs_on_the_same_images_share_a_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = tiny_net()
    known = {"a": tmp_path / "new" / "a.linear"}
    fitted = fit_frozen_features(net, [_pixels(0)], known)["a"]
    assert torch.equal(fitted.weight_KF, fit_frozen_features(net, [_pixels(0)])["a"].weight_KF)
    monkeypatch.setattr(frozen_features, "fit_linear", lambda *_: pytest.fail("it was fitted again"))
    found = fit_frozen_features(net, [_pixels(0)], known)["a"]
    assert torch.equal(found.weight_KF, fitted.weight_KF)
    assert torch.equal(found.bias_K, fitted.bias_K)


def test_a_damaged_or_unwritable_cache_is_none(tmp_path: Path) -> None:
    net = tiny_net()
    file = tmp_path / "a.linear"
    file.write_bytes(b"damaged")
    fitted = fit_frozen_features(net, [_pixels(0)], {"a": file})["a"]
    assert torch.equal(read_classifiers(file)["kept"].weight_KF, fitted.weight_KF)
    (tmp_path / "file").write_text("no folder")
    again = fit_frozen_features(net, [_pixels(0)], {"a": tmp_path / "file" / "a.linear"})["a"]
    assert torch.equal(again.weight_KF, fitted.weight_KF)
