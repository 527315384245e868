"""The folder in which a domain that is added is trained, and how its run becomes a model file."""

import shlex
from pathlib import Path

from prunus.checkpoints.last import read_last
from prunus.config import NO_FOLDERS, Recipe
from prunus.errors import TrainingError
from prunus.methods.table import with_method
from prunus.recipes import recipe_differences
from prunus.run_folder import RunFolder
from prunus.training.planning import stored_recipe
from prunus.training.settling import settled_like

RUN, TEACHER = "run", "teacher"  # the folders of an addition


def check_folder(folder: Path) -> None:
    """Refuse the folder of a run in place of the one that holds it."""
    if RunFolder(folder).holds_run():
        raise TrainingError(
            f"{folder} is a run itself; to continue an addition, name the folder that holds its run: "
            f"the argument run={str(_parent(folder))!r}"
        )


def check_same(recipe: Recipe, run: Path) -> None:
    """Refuse the run of another addition before a teacher is trained for nothing."""
    folder = RunFolder(run)
    if not folder.holds_run():
        return
    trained = stored_recipe(folder, read_last(folder))
    if changes := recipe_differences(trained, settled_like(with_method(recipe), trained)):
        raise TrainingError(
            f"{run} was begun with other settings ({'; '.join(changes[:3])}); pass the argument settings and the "
            "argument teacher as then, or name another folder with the argument run"
        )


def finishing_command(recipe: Recipe, run: Path) -> str:
    """Return the command that writes the model file with what the run of an addition has learned."""
    (domain,) = recipe.domains
    images = "IMAGES" if domain.path.startswith(NO_FOLDERS) else shlex.quote(domain.path)
    parts = ["prunus add-domain", shlex.quote(recipe.backbone.name), images, "--name", domain.name]
    if recipe.backbone.original:
        parts += ["--grow", f"{recipe.budget.only_kernels:.12g}"]
    parts += [*_teacher(recipe, _parent(run)), "--run", shlex.quote(str(_parent(run))), "--out OUT.prunus"]
    return f"{' '.join(parts)} (with --set, --weights and --replace as before)"


def _teacher(recipe: Recipe, folder: Path) -> list[str]:
    """Return the option that names the same teacher; one that was trained here is the default, even if left out."""
    own = RunFolder(folder / TEACHER)
    if recipe.teacher is None:
        return [] if own.holds_run() else ["--teacher", "none"]
    return [] if Path(recipe.teacher) == own.path.resolve() else ["--teacher", shlex.quote(recipe.teacher)]


def _parent(run: Path) -> Path:
    return run.parent if run.name not in ("", "..") else run.absolute().parent
