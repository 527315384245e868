"""The command line's words for what errors say in Python: `--no-cache` for `use_cache=False`."""

import re

PATH = r"(['\"])(.+?)\1"  # as repr writes it
# what an error says in Python -> the same on the command line
WORDS = (
    (rf"prunus\.resume\({PATH}\)", r"prunus train --resume \2"),
    (rf"prunus\.train\('recipe\.toml', {PATH}\)", r"prunus train recipe.toml --out \2"),
    (r"prunus\.prune\('RUN', 'model\.prunus'\)", "prunus prune RUN --out model.prunus"),
    (r"prunus\.prune\('RUN', 'model\.prunus', dtype='(\w+)'\)", r"prunus prune RUN --out model.prunus --dtype \1"),
    (
        r"prunus\.remove_domain\('FILE', 'NAME', 'smaller\.prunus'\)",
        "prunus remove-domain FILE NAME --out smaller.prunus",
    ),
    (r"skip_bad_images = true in the recipe", "--set skip_bad_images=true"),  # which every command that trains has
    (r"the argument use_cache=False", "--no-cache"),
    (r"the argument replace=True", "--replace"),
    (r"the argument teacher=None", "--teacher none"),
    (r"the argument settings", "--set"),
    (rf"the argument (?P<name>[a-z_]+)={PATH.replace('1', '2')}", r"--\1 \3"),
    (r"the argument ([a-z_]+)", r"--\1"),
    (r"the override ([a-z_.]+=)", r"--set \1"),
)


def on_command_line(text: str) -> str:
    """Return the text of an error with commands and options in place of Python's functions and arguments."""
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return text
