"""How much a model file may claim: whatever is beyond is refused before memory is taken or time is spent.

Far beyond what networks need, and near enough that the worst file with a right checksum is harmless.
"""

from __future__ import annotations

MAX_HEADER = 2**23  # bytes

MAX_OPERATIONS = 10_000
MAX_SIDE = 2**16  # of anything that is counted along one axis
MAX_IMAGE_SIDE = 4096  # pixels
MAX_LAYER_NAME = 400  # characters
MAX_DOMAIN_NAME = 200  # characters: it becomes a file's name

MAX_NUMBERS = 2**26  # of one value, for one image, its padding included
MAX_ALL_NUMBERS = 2**30  # of all values together
MAX_WINDOW_NUMBERS = 2**28  # of all windows of one convolution: runtimes may lay them side by side

MAX_DOMAINS = 1000
MAX_ARRAYS = 2**17  # domains x (layers + tensors of a domain + its classifier's two): each is an object of its own
MAX_WEIGHTS = 2**28  # of all convolutions, were they dense
MAX_SWITCHES = 2**28  # kernels x domains
# weights that are not kept take no bytes, so that a small file could claim many: so many for free, so many per byte
FREE_WEIGHTS = 2**22
WEIGHTS_PER_BYTE = 2**8
