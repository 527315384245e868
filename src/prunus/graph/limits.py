"""The limits of a model file, which are checked before memory is allocated.

They are far above the needs of real networks, and low enough to make the worst file with a correct checksum harmless.
"""

MAX_HEADER = 2**23  # bytes
MAX_HEADER_VALUES = 2**19  # commas and opening brackets of its JSON

# what a file may cost in all, as `costs` computes it: so much, and more per byte of data
LOAD_SECONDS = 2.0
LOAD_SECONDS_PER_BYTE = 1e-8
LOAD_BYTES = 300e6
LOAD_BYTES_PER_BYTE = 3
IMAGE_SECONDS = 10.0
IMAGE_BYTES = 1e9
MAX_CACHED_BYTES = 2**28  # of dense weights that the numpy engine keeps for later images, if one domain takes no more

MAX_COUNT = 2**53  # of anything that the header counts
MAX_OPERATIONS = 10_000
MAX_SIDE = 2**16  # along any axis
MAX_IMAGE_SIDE = 4096  # pixels
MAX_LAYER_NAME = 400  # characters

MAX_NUMBERS = 2**26  # of one value for one image, including padding
MAX_ALL_NUMBERS = 2**30  # of all values together
MAX_WINDOW_NUMBERS = 2**28  # of all windows of one operation, which runtimes may copy

MAX_DOMAINS = 1000
MAX_ARRAYS = 2**17  # domains x (layers + tensors of a domain + 2 of its classifier)
MAX_WEIGHTS = 2**28  # of all convolutions, including removed kernels
MAX_SWITCHES = 2**28  # kernels x domains
# removed kernels take no bytes, so the weights that a file may declare depend on its size: so many, and more per byte
FREE_WEIGHTS = 2**22
WEIGHTS_PER_BYTE = 2**8
