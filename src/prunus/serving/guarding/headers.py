"""Headers of every response, which tell browsers to trust it with as little as possible, and those of a request."""

SECURITY_HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
MAX_DIGITS = 18  # of a Content-Length; the server's parser refuses larger numbers


def declared_bytes(length: bytes) -> int:
    """Return the number of a Content-Length header, or 0 if it has none; Python reads no more than 4,300 digits."""
    digits = length.lstrip(b"0")
    return int(digits[:MAX_DIGITS]) if digits.isdigit() else 0
