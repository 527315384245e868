from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prunus.config import DomainChoice
from prunus.data.domains import Domain
from prunus.data.layouts import open_domain
from prunus.data.loading import ImageSet, load_images
from prunus.errors import DataError
from prunus.images import Preprocess, read_image

MakeDomain = Callable[..., Path]
PREPROCESS = Preprocess(size=4, resize=6, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


def opened(path: Path) -> Domain:
    return open_domain(DomainChoice(name="mine", path=str(path)))


def test_images_are_stored_in_order_with_their_labels(
    make_domain: MakeDomain, make_zip: Callable[[Path], Path]
) -> None:
    folder = make_domain(validation=1, test=20, size=(9, 7))
    expected = [PREPROCESS.store(read_image(folder / "test" / label / f"{i}.png")) for label in "ab" for i in range(20)]
    in_order = [expected[20 * label + int(name)] for label in (0, 1) for name in sorted(map(str, range(20)))]
    for path in (folder, make_zip(folder)):
        found = load_images(opened(path), "test", PREPROCESS)
        assert found.images.shape == (40, 3, 6, 6)
        assert np.array_equal(found.images, np.stack(in_order))
        assert found.labels.tolist() == [0] * 20 + [1] * 20
        assert (len(found), found.skipped) == (40, ())


def test_train_and_validation_can_be_loaded_as_one(make_domain: MakeDomain) -> None:
    domain = opened(make_domain(train=10))
    assert len(load_images(domain, "train", PREPROCESS)) == 18
    assert len(load_images(domain, "train+validation", PREPROCESS)) == 20


def test_a_split_without_images_is_refused(make_domain: MakeDomain) -> None:
    with pytest.raises(DataError, match=r"domain 'mine' .* has no test images"):
        load_images(opened(make_domain(test=0)), "test", PREPROCESS)


def test_a_bad_image_is_named_with_its_domain_and_the_way_out(make_domain: MakeDomain) -> None:
    folder = make_domain()
    (folder / "test" / "b" / "1.png").write_bytes(b"no image")
    with pytest.raises(DataError) as caught:
        load_images(opened(folder), "test", PREPROCESS)
    message = str(caught.value)
    assert message.startswith(f"cannot read test/b/1.png of domain 'mine' ({folder}): ")
    assert message.endswith("; fix or remove it")
    with pytest.raises(DataError, match=r"; paint it anew$"):
        load_images(opened(folder), "test", PREPROCESS, remedy="paint it anew")
    assert "more" not in message


def test_several_bad_images_are_counted(make_domain: MakeDomain) -> None:
    folder = make_domain()
    for name in ("a/0.png", "a/1.png", "b/1.png"):
        (folder / "test" / name).write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot read test/a/0\.png .*\(and 2 more\)"):
        load_images(opened(folder), "test", PREPROCESS)


def test_bad_images_are_left_out_and_listed_where_that_is_asked_for(make_domain: MakeDomain) -> None:
    folder = make_domain(test=3)
    (folder / "test" / "a" / "1.png").write_bytes(b"")
    (folder / "test" / "b" / "0.png").write_bytes(b"no image")
    whole = load_images(opened(make_domain("whole", test=3)), "test", PREPROCESS)
    found = load_images(opened(folder), "test", PREPROCESS, skip_bad=True)
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert len(found.images) == 4
    assert not np.array_equal(found.images[1], whole.images[1])
    assert [line.split(" of ")[0] for line in found.skipped] == ["cannot read test/a/1.png", "cannot read test/b/0.png"]


def test_a_damaged_zip_member_counts_as_a_bad_image(make_domain: MakeDomain, make_zip: Callable[[Path], Path]) -> None:
    path = make_zip(make_domain())
    content = bytearray(path.read_bytes())
    first = content.index(b"test/a/0.png") + len(b"test/a/0.png")
    content[first : first + 40] = b"\xff" * 40
    path.write_bytes(content)
    domain = opened(path)
    with pytest.raises(DataError, match=r"test/a/0\.png"):
        load_images(domain, "test", PREPROCESS)
    assert load_images(domain, "test", PREPROCESS, skip_bad=True).labels.tolist() == [0, 1, 1]


def test_a_class_whose_training_images_are_all_bad_is_refused_even_then(make_domain: MakeDomain) -> None:
    folder = make_domain()
    for file in (folder / "train" / "b").iterdir():
        file.write_bytes(b"")
    with pytest.raises(DataError, match="no train image of class 'b' can be read"):
        load_images(opened(folder), "train", PREPROCESS, skip_bad=True)


def test_a_split_whose_images_are_all_bad_is_refused_even_then(make_domain: MakeDomain) -> None:
    folder = make_domain()
    for file in (folder / "test").rglob("*.png"):
        file.write_bytes(b"")
    with pytest.raises(DataError, match="no image of test can be read"):
        load_images(opened(folder), "test", PREPROCESS, skip_bad=True)


def test_the_fingerprint_changes_with_any_pixel_and_any_label() -> None:
    images, labels = np.zeros((2, 3, 4, 4), dtype=np.uint8), np.array([0, 1])
    before = ImageSet(images, labels).fingerprint()
    assert ImageSet(images.copy(), labels.copy()).fingerprint() == before
    other = images.copy()
    other[1, 2, 3, 3] = 1
    assert ImageSet(other, labels).fingerprint() != before
    assert ImageSet(images, np.array([1, 0])).fingerprint() != before
