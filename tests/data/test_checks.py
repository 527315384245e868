"""Every problem of image data is found, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.data.checks import CheckReport, DomainSummary
from prunus.data.visual_decathlon.sets import open_decathlon_set
from prunus.errors import DataError, UnknownNameError
from prunus.verbs.check import check
from tests.makers.decathlon import write_picture
from tests.makers.folder_names import numbered, write_files
from tests.makers.hostile_files import NOT_REGULAR, write_liar

MakeDomain = Callable[..., Path]
MakeZip = Callable[[Path], Path]


def found(report: CheckReport) -> list[tuple[str, str]]:
    return [(finding.level, finding.file) for finding in report.findings]


def test_a_good_domain_has_no_findings_as_a_folder_and_as_a_zip(make_domain: MakeDomain, make_zip: MakeZip) -> None:
    folder = make_domain("flowers", classes=("a", "b", "c"), validation=1)
    for path in (folder, make_zip(folder)):
        report = check(path)
        assert report.domains == (DomainSummary("flowers", 3, {"test": 6, "train": 12, "validation": 3}),)
        assert report.findings == ()
        assert not report.has_errors


def test_a_demo_domain_is_checked_under_its_own_name() -> None:
    report = check("demo:fashion")
    assert report.domains == (DomainSummary("fashion", 10, {"test": 300, "train": 800}),)
    assert not report.has_errors


def test_a_folder_of_domains_is_checked_domain_by_domain(
    make_domain: MakeDomain, make_zip: MakeZip, tmp_path: Path
) -> None:
    make_domain("all/flowers")
    make_zip(make_domain("all/signs"))
    shutil.rmtree(tmp_path / "all" / "signs")
    (tmp_path / "all" / "flowers" / "test" / "a" / "0.png").write_bytes(b"")
    report = check(tmp_path / "all")
    assert [domain.name for domain in report.domains] == ["flowers", "signs"]
    assert [(finding.domain, finding.file) for finding in report.findings] == [("flowers", "test/a/0.png")]


def test_every_image_is_looked_at_once(make_domain: MakeDomain) -> None:
    calls: list[None] = []
    check(make_domain(), on_image=lambda: calls.append(None))
    assert len(calls) == 2 * (4 + 2)


@pytest.mark.parametrize(("content", "reason"), [(b"", "empty"), (b"no image", "none of JPEG"), (None, "")])
def test_an_image_that_cannot_be_read_is_an_error(
    make_domain: MakeDomain, make_zip: MakeZip, content: bytes | None, reason: str
) -> None:
    folder = make_domain(size=(32, 32))
    file = folder / "train" / "b" / "2.png"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    for path in (folder, make_zip(folder)):
        report = check(path)
        assert found(report) == [("error", "train/b/2.png")]
        assert report.findings[0].message.startswith("cannot read train/b/2.png: ")
        assert reason in report.findings[0].message
        assert report.has_errors


def test_a_recipe_that_skips_unreadable_images_needs_some_of_every_class(
    make_domain: MakeDomain, tmp_path: Path
) -> None:
    folder = make_domain("birds")
    (tmp_path / "r.toml").write_text('backbone = "wrn14_2"\ndomains = ["birds"]\nskip_bad_images = true\n')
    for number, levels in enumerate(["warning", "warning", "warning", "warning error"]):
        (folder / "train" / "b" / f"{number}.png").write_bytes(b"")
        report = check(tmp_path / "r.toml")
        assert sorted({level for level, _ in found(report)}) == sorted(levels.split())
    assert report.findings[-1].message == "no train image of the class can be read"


def test_domains_of_one_name_are_a_warning_that_asks_for_names(make_domain: MakeDomain, tmp_path: Path) -> None:
    make_domain("all/My Art")
    make_domain("all/My-Art")
    report = check(tmp_path / "all")
    assert found(report) == [("warning", "My Art"), ("warning", "My-Art")]
    assert report.findings[0].message == "2 folders have this domain name; a recipe needs a name for each of them"
    assert report.notes == ("the domain in 'My Art' is called 'My-Art'",)


def test_a_domain_name_that_no_model_file_could_hold_is_an_error(make_domain: MakeDomain) -> None:
    report = check(make_domain("x" * 201))
    assert [finding.level for finding in report.findings] == ["error"]
    assert "a domain name has at most 200 characters" in report.findings[0].message


def test_class_folders_are_checked_with_the_split_that_training_would_use(tmp_path: Path) -> None:
    write_files(tmp_path / "flowers", [*numbered({"rose": 10, "tulip": 5}), "void/", "README.md"])
    (tmp_path / "flowers" / "tulip" / "1.png").write_bytes(b"")
    report = check(tmp_path / "flowers")
    assert report.domains == (DomainSummary("flowers", 2, {"train": 12, "test": 3}),)
    assert {("error", "tulip/1.png"), ("warning", "void/"), ("warning", "README.md")} <= set(found(report))
    assert report.notes[0].startswith("flowers: class folders without splits: 3 of 15 images are held out for the test")


def test_a_damaged_zip_member_is_an_error(make_domain: MakeDomain, make_zip: MakeZip) -> None:
    path = make_zip(make_domain())
    content = bytearray(path.read_bytes())
    first = content.index(b"test/a/0.png") + len(b"test/a/0.png")
    content[first : first + 40] = b"\xff" * 40
    path.write_bytes(content)
    assert found(check(path)) == [("error", "test/a/0.png")]


def test_a_zip_that_cannot_be_opened_does_not_hide_the_other_domains(make_domain: MakeDomain, tmp_path: Path) -> None:
    make_domain("all/flowers")
    (tmp_path / "all" / "broken.zip").write_bytes(b"no zip")
    report = check(tmp_path / "all")
    assert [finding.domain for finding in report.findings if finding.level == "error"] == ["broken"]
    assert "flowers" in [domain.name for domain in report.domains]


def test_pipes_devices_and_sockets_are_errors_and_nobody_waits_for_them(make_domain: MakeDomain) -> None:
    folder = make_domain()
    kinds = [kind for kind in NOT_REGULAR if kind != "a folder"]
    for number, kind in enumerate(kinds):
        NOT_REGULAR[kind](folder / "train" / "a" / f"x{number}.jpg")
    (folder / "train" / "a" / "folder.jpg").mkdir()
    command = [sys.executable, "-m", "prunus", "check", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    found = {finding["file"]: finding["message"] for finding in json.loads(done.stdout)["findings"]}
    assert list(found) == [f"train/a/x{number}.jpg" for number in range(len(kinds))]
    for number, kind in enumerate(kinds):
        assert f"it is {kind}, not a regular file" in found[f"train/a/x{number}.jpg"]


def test_a_zip_member_that_lies_about_its_size_is_an_error(make_domain: MakeDomain, tmp_path: Path) -> None:
    path = write_liar(tmp_path / "x.zip", zipfile.ZIP_DEFLATED)
    report = check(path)
    assert ("error", "train/a/x.png") in found(report)
    assert any("it claims 1,000 bytes, but holds more" in finding.message for finding in report.findings)


def test_names_that_a_training_run_would_stop_at_are_errors(make_domain: MakeDomain) -> None:
    folder = make_domain(os.fsdecode(b"d\xff"))
    for file in (os.fsdecode(b"train/a/\xff.png"), "train/a/\x1b[31m.png", os.fsdecode(b"train/\xfe/0.png")):
        (folder / file).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "train" / "a" / "0.png", folder / file)
    (folder / "test" / "b\n").mkdir()
    shutil.copy(folder / "test" / "b" / "0.png", folder / "test" / "b\n" / "0.png")
    report = check(folder)
    messages = {finding.file: finding.message for finding in report.findings if "rename it" in finding.message}
    assert messages == {
        "": "the name is not valid UTF-8; rename it",
        "train/a/\udcff.png": "the name is not valid UTF-8; rename it",
        "train/a/\x1b[31m.png": r"the name contains the control character \x1b; rename it",
        "train/\udcfe/": "the name is not valid UTF-8; rename it",
        "test/b\n/": r"the name contains the control character \n; rename it",
    }
    assert report.has_errors


def test_a_name_that_a_zip_file_makes_too_long_is_an_error(make_domain: MakeDomain, make_zip: MakeZip) -> None:
    folder = make_domain()
    path = make_zip(folder)
    name = f"train/a/{'x' * 256}.png"
    with zipfile.ZipFile(path, "a") as file:
        file.write(folder / "train" / "a" / "0.png", name)
    assert found(check(path)) == [("error", name)]


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_empty_class_is_an_error(make_domain: MakeDomain, make_zip: MakeZip, split: str) -> None:
    folder = make_domain(classes=("a", "b", "c"))
    for file in (folder / split / "c").iterdir():
        file.unlink()
    for path in (folder, make_zip(folder)):
        report = check(path)
        assert ("error", f"{split}/c/") in found(report)
        assert any("the class has no image" in finding.message for finding in report.findings)


def test_a_class_that_holds_only_a_hidden_file_is_an_error(make_domain: MakeDomain) -> None:
    folder = make_domain()
    (folder / "train" / "c").mkdir()
    (folder / "train" / "c" / ".DS_Store").touch()
    assert ("error", "train/c/") in found(check(folder))


@pytest.mark.parametrize("alias", ["test", "val", "validation"])
def test_a_class_that_is_missing_in_train_is_an_error_at_its_own_place(make_domain: MakeDomain, alias: str) -> None:
    folder = make_domain()
    shutil.copytree(folder / "test" / "a", folder / alias / "c")
    (folder / alias / "c" / "0.png").write_bytes((folder / "test" / "b" / "0.png").read_bytes())
    report = check(folder)
    assert found(report) == [("error", f"{alias}/c/")]
    assert report.findings[0].message.startswith("the class is not in train")


def test_a_single_class_is_an_error_because_a_training_would_stop(make_domain: MakeDomain) -> None:
    assert check(make_domain(classes=("a",))).has_errors


def test_a_class_without_test_images_is_a_warning(make_domain: MakeDomain) -> None:
    folder = make_domain()
    shutil.rmtree(folder / "test" / "b")
    report = check(folder)
    assert found(report) == [("warning", "train/b/")]
    assert report.findings[0].message == "the class has no test image"
    assert not report.has_errors


def test_a_domain_without_test_images_is_a_warning(make_domain: MakeDomain) -> None:
    report = check(make_domain(test=0))
    assert found(report) == [("warning", "")]
    assert "no test split" in report.findings[0].message


def test_a_file_that_is_no_image_is_a_warning(make_domain: MakeDomain) -> None:
    folder = make_domain()
    (folder / "train" / "a" / "notes.txt").touch()
    (folder / "train" / "a" / ".hidden").touch()
    report = check(folder)
    assert found(report) == [("warning", "train/a/notes.txt")]
    assert "ignored" in report.findings[0].message


def test_a_test_image_that_is_also_in_train_is_a_warning_that_names_both(make_domain: MakeDomain) -> None:
    folder = make_domain()
    shutil.copy(folder / "train" / "b" / "3.png", folder / "test" / "a" / "1.png")
    report = check(folder)
    assert found(report) == [("warning", "test/a/1.png")]
    assert report.findings[0].message.startswith("the same bytes as train/b/3.png")


def test_two_equal_images_within_train_are_no_finding(make_domain: MakeDomain) -> None:
    folder = make_domain()
    shutil.copy(folder / "train" / "b" / "3.png", folder / "train" / "b" / "1.png")
    assert check(folder).findings == ()


def test_a_folder_in_a_folder_of_domains_that_is_none_is_an_error(make_domain: MakeDomain, tmp_path: Path) -> None:
    make_domain("all/flowers")
    (tmp_path / "all" / "other").mkdir()
    (tmp_path / "all" / "other" / "x.txt").touch()
    report = check(tmp_path / "all")
    assert "no train split" in next(f.message for f in report.findings if f.level == "error" and f.domain == "other")


def test_a_place_without_any_domain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no domain: expected <split>/<class>/<image>"):
        check(tmp_path)


def test_a_missing_place_is_refused_with_the_nearest_name(make_domain: MakeDomain, tmp_path: Path) -> None:
    make_domain("flowers")
    with pytest.raises(UnknownNameError, match="did you mean 'flowers'"):
        check(tmp_path / "flower")


def test_checking_a_decathlon_finds_lost_and_stray_files_and_odd_counts(decathlon: Path) -> None:
    domain = open_decathlon_set(decathlon, "dtd")
    (decathlon / domain.train[0].file).unlink()
    write_picture(decathlon / "data" / "dtd" / "train" / "0001" / "stray.jpg", 0, 1)
    (decathlon / domain.train[1].file).write_bytes(b"")
    (decathlon / domain.test[0].file).write_bytes((decathlon / domain.train[2].file).read_bytes())
    Image.new("CMYK", (72, 72)).save(decathlon / domain.train[3].file)
    result = CliRunner().invoke(app, ["check", str(decathlon), "--benchmark", "decathlon", "--json"])
    report = json.loads(result.output)
    of_dtd = [(f["level"], f["message"]) for f in report["findings"] if f["domain"] == "dtd"]
    assert result.exit_code == 1
    for level, text in (
        ("error", f"1 annotated image has no file, such as {domain.train[0].image_id}"),
        ("warning", "1 file has no annotation, such as data/dtd/train/0001/stray.jpg"),
        ("error", "it is empty"),
        ("warning", "1 image of mode CMYK"),
        ("warning", "the same bytes as"),
        ("warning", "2 classes, Visual Decathlon Challenge has 47"),
        ("warning", "8 test images, Visual Decathlon Challenge has 1880"),
    ):
        assert any(found == level and text in message for found, message in of_dtd), text
    assert sum("skipped" in finding["message"] for finding in report["findings"]) == 8
    assert [domain["name"] for domain in report["domains"]] == ["aircraft", "dtd"]


def test_a_decathlon_checked_without_its_name_is_recognised(decathlon: Path) -> None:
    with pytest.raises(
        DataError, match="looks like the Visual Decathlon; check it with the argument benchmark='decathlon'"
    ):
        check(decathlon)


def test_pictures_that_are_not_read_are_named_with_a_remedy(make_domain: MakeDomain) -> None:
    folder = make_domain()
    for name in ("IMG_1.HEIC", "IMG_2.heic", "notes.txt"):
        (folder / "train" / "a" / name).write_bytes(b"x")
    findings = {finding.file: finding for finding in check(folder).findings}
    phone = findings["train/a/IMG_1.HEIC"]
    assert phone.message == "HEIC is not read: convert it to JPEG or PNG"
    assert phone.group == findings["train/a/IMG_2.heic"].group == ".heic not read (convert them to JPEG or PNG)"
    assert findings["train/a/notes.txt"].message == "not an image of <split>/<class>/: ignored"
