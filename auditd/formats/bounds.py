"""The bounds that every reader holds, checked before anything is allocated or looped over.

Each number is a count of bytes unless its name says otherwise. Past a bound and past the end of the file a
declaration is malformed; past a bound with the bytes there the refusal is ``resource_limit``; within the
bounds and past the end the file is truncated.
"""

from typing import Final

#: GGUF: magic up to the last byte of the tensor directory. safetensors: the JSON without its prefix; the
#: reference reader refuses more, too.
HEADER_BYTES: Final = 100_000_000

#: One string. No real vocabulary or template comes near it; a length past it is a reader that lost its place.
STRING_BYTES: Final = 64 * 1024 * 1024

#: Tensor entries. A header within its own bound cannot hold more than about a quarter of this.
TENSOR_COUNT: Final = 16_777_216

#: Containers inside each other: a GGUF array of plain elements has depth 1, so has the root of a JSON header.
NESTING_DEPTH: Final = 32

#: Dimensions of a GGUF tensor (``GGML_MAX_DIMS``). safetensors sets none.
GGUF_DIMENSIONS: Final = 4

#: What the rows that are kept may weigh; see :class:`auditd.formats.retention.Retention` for how it is counted.
RETAINED_BYTES: Final = 32 * 1024 * 1024

#: Elements of an array that are kept to be shown.
PREVIEW_ELEMENTS: Final = 8

#: The largest piece that a reader is fed, so also the most that is read past the end of a header.
CHUNK_BYTES: Final = 256 * 1024

#: The first piece: most small files need no second one.
FIRST_CHUNK_BYTES: Final = 32 * 1024

#: ggml keeps a tensor name in 64 bytes with its NUL.
GGML_NAME_BYTES: Final = 63

#: The GGUF specification's limit for a key.
KEY_BYTES: Final = 65_535

#: Integers past this are not exact in every JSON reader, so no output holds one (RFC 8785, section 3.2.2.3).
EXACT_INTEGER: Final = 2**53 - 1

U64: Final = 2**64
