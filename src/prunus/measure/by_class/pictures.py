"""Small copies of images that fit into a results file and a page."""

import base64
import io

from PIL import Image

from prunus.arrays import Bytes

SIDE = 96  # pixels at most; a larger image is scaled down
QUALITY = 80  # of the JPEG file: about 2 kB


def small_picture(stored_3RR: Bytes) -> str:
    """Return a stored image as a small JPEG file in a data URL."""
    image = Image.fromarray(stored_3RR.transpose(1, 2, 0))
    image.thumbnail((SIDE, SIDE))
    content = io.BytesIO()
    image.save(content, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
