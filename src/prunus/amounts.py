"""Amounts as people write them: "25%", "1 MB", "20 M", "2 runs"."""

import re

BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
COUNTS = {"k": 10**3, "M": 10**6, "G": 10**9}
NUMBER = re.compile(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(\S*)\s*")


def parse_share(value: object) -> object:
    """Read a share from text such as "25%"; other values are returned unchanged."""
    if isinstance(value, (int, float)) and 2 <= value <= 100:
        raise ValueError(f'expected a share from 0 to 1, got {value}; write "{value:g}%" for a percentage')
    if not isinstance(value, str):
        return value
    number, unit = _split(value)
    if unit.lower() in {name.lower() for name in BYTES}:
        raise ValueError(
            'expected a share such as 0.25 or "25%", got a size; '
            f'write budget = {{ bytes = "{value}" }}, or use the override budget.bytes="{value}"'
        )
    if unit != "%":
        raise ValueError(f'expected a number from 0 to 1 or a percentage such as "25%", got {value!r}')
    return number / 100


def parse_bytes(value: object) -> object:
    """Read a number of bytes from text such as "1 MB", which is 10^6 bytes; other values are returned unchanged."""
    if not isinstance(value, str):
        return value
    number, unit = _split(value)
    known = {name.lower(): factor for name, factor in BYTES.items()}
    if unit.lower() not in known:
        raise ValueError(f'expected a size such as "1 MB", in {", ".join(BYTES)}, got {value!r}')
    return int(number * known[unit.lower()] + 1e-6)


def parse_count(value: object) -> object:
    """Read a number of multiply-accumulates from text such as "20 M"; other values are returned unchanged."""
    if not isinstance(value, str):
        return value
    number, unit = _split(value)
    prefix = re.sub(r"macs?$", "", unit, flags=re.IGNORECASE)
    known = {name.lower(): factor for name, factor in COUNTS.items()} | {"": 1}
    if prefix.lower() not in known:
        raise ValueError(f'expected a number such as "20 M", in {", ".join(COUNTS)}, got {value!r}')
    return int(number * known[prefix.lower()] + 1e-6)


def write_bytes(count: float) -> str:
    """Write a number of bytes in the largest unit that is not below 1: 1,234,567 is "1.235 MB"."""
    unit, factor = next((pair for pair in (("MB", 10**6), ("kB", 10**3)) if count >= pair[1]), ("bytes", 1))
    return _write(count / factor, unit)


def write_count(count: float) -> str:
    """Write a number of multiply-accumulates in the largest unit that is not below 1: 20,000,000 is "20 M"."""
    unit, factor = next((pair for pair in (("G", 10**9), ("M", 10**6), ("k", 10**3)) if count >= pair[1]), ("", 1))
    return _write(count / factor, unit)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Write a count with its noun, as in "1 run" and "1,200 runs".

    Args:
        nouns: what follows any number but 1 (default: the noun with an s).
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def _write(number: float, unit: str) -> str:
    digits = f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{digits} {unit}".strip()


def _split(text: str) -> tuple[float, str]:
    match = NUMBER.fullmatch(text)
    if not match:
        raise ValueError(f"expected a number, with a unit or without one, got {text!r}")
    return float(match[1]), match[2]
