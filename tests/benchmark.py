# ruff: noqa: T201 - a program that prints
"""How long a header takes: run it as ``python -m tests.benchmark``. Not a test.

Builds the header of a large model (152,064 tokens, 151,387 merges, 152,064 token types, 339 tensors) with a
vocabulary whose lengths are like a real one's, and compares one inspection with the ``gguf`` package's reader;
then the full hash of a file with plain hashlib in pieces of 1 MiB, with the file in memory and not, and at a byte rate.
Medians of several runs, and the peak memory of a fresh process for each. ``--idle FILES`` measures the daemon instead.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmark_idle import measure

TOKENS = 152_064
MERGES = 151_387


def _text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def _entry(key: str, kind: int, raw: bytes) -> bytes:
    return _text(key.encode()) + struct.pack("<I", kind) + raw


def _words(dice: random.Random) -> list[bytes]:
    """Most pieces are short ASCII, one in five is not ASCII, one in five thousand is long."""
    words = []
    for index in range(TOKENS):
        if index % 5_000 == 4_999:
            words.append(b" " * dice.randrange(130, 400))
        elif index % 5 == 0:
            words.append("".join(dice.choice("éüßñдлязы模型语言한국") for _ in range(dice.randrange(1, 5))).encode())
        else:
            words.append(bytes(dice.choices(b"abcdefghijklmnopqrstuvwxyzABC_0123456789", k=dice.randrange(1, 12))))
    return words


def header() -> tuple[bytes, int]:
    """The header with its padding, and the length of the tensor data behind it."""
    dice = random.Random(7)
    words = _words(dice)
    halves = [word.decode()[:6].encode() for word in words]
    merges = [dice.choice(halves) + b" " + dice.choice(halves) for _ in range(MERGES)]
    entries = [
        _entry("general.architecture", 8, _text(b"qwen2")),
        _entry("general.name", 8, _text(b"A model")),
        *[_entry(f"qwen2.number_{index}", 4, struct.pack("<I", index)) for index in range(27)],
        _entry("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, TOKENS) + b"".join(map(_text, words))),
        _entry("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, TOKENS) + struct.pack("<i", 1) * TOKENS),
        _entry("tokenizer.ggml.merges", 9, struct.pack("<IQ", 8, MERGES) + b"".join(map(_text, merges))),
        _entry("tokenizer.chat_template", 8, _text(b"{{ x }}" * 350)),
        _entry("general.quantization_version", 4, struct.pack("<I", 2)),
    ]
    directory = []
    offset = 0
    for index in range(339):
        directory.append(_text(b"blk.%d.some_tensor.weight" % index))
        directory.append(struct.pack("<IQQIQ", 2, 3584, 16, 12, offset))
        offset += 3584 * 16 // 256 * 144
    out = b"GGUF" + struct.pack("<IQQ", 3, 339, len(entries)) + b"".join(entries) + b"".join(directory)
    return out + bytes(-len(out) % 32), offset


def inspect_once(path: Path, mode: str = "header", bytes_per_second: int = 0) -> None:
    """One inspection in this process."""
    from auditd.evidence.record import Producer
    from auditd.inspection.inspector import inspect
    from auditd.inspection.request import Request, carry_on, unwatched

    producer = Producer(name="model-auditd", version="0", host="here", configuration="0" * 64)
    request = Request(
        path=os.fsencode(path),
        producer=producer,
        hash_mode="full" if mode == "full" else "header",
        bytes_per_second=bytes_per_second,
    )
    evidence = inspect(request, carry_on, unwatched)
    if evidence.verdict != "sound":
        raise SystemExit(f"the benchmark's file is {evidence.verdict}: {evidence.findings}")


def peer_once(path: Path) -> None:
    """One reading by the gguf package."""
    import gguf

    gguf.GGUFReader(path)


def hashlib_once(path: Path) -> None:
    """A plain SHA-256 in pieces of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)


def imports_only(path: Path) -> None:
    """What a process weighs that only imports the inspector."""
    import auditd.inspection.inspector  # noqa: F401


WORK: dict[str, Callable[[Path], None]] = {
    "imports": imports_only,
    "inspect": inspect_once,
    "gguf": peer_once,
    "full": lambda path: inspect_once(path, "full"),
    "hashlib": hashlib_once,
}


def forget(path: Path) -> None:
    """Have none of the file in memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def median_ms(work: Callable[[Path], None], path: Path, runs: int, *, cold: bool = False) -> float:
    """Milliseconds, the median of ``runs`` after one for the caches; ``cold``: each with none of the file in memory."""
    hashlib_once(path)  # an inspection brings nothing in
    work(path)
    spent = []
    for _ in range(runs):
        if cold:
            forget(path)
        start = time.perf_counter()
        work(path)
        spent.append(time.perf_counter() - start)
    return statistics.median(spent) * 1000


def peak_mib(name: str, path: Path) -> float:
    """Peak resident memory of a fresh process that does the work once."""
    command = [sys.executable, "-m", "tests.benchmark", "--peak", name, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def main() -> None:
    """Print the table, or do one piece of work and print this process's peak."""
    parser = argparse.ArgumentParser(description="header and hash speed")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--peer-runs", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=512, help="size of the file for the full hash")
    parser.add_argument("--idle", type=int, metavar="FILES", help="measure the daemon over so many files instead")
    parser.add_argument("--peak", nargs=2, metavar=("WORK", "FILE"))
    options = parser.parse_args()
    if options.peak:
        WORK[options.peak[0]](Path(options.peak[1]))
        # not ru_maxrss: it survives exec, so it would be this program's parent's if that was larger
        with open("/proc/self/status", encoding="ascii") as status:
            print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
        return
    with tempfile.TemporaryDirectory() as directory:
        if options.idle:
            measure(Path(directory), options.idle)
            return
        path = Path(directory) / "model.gguf"
        made, data_length = header()
        path.write_bytes(made)
        os.truncate(path, len(made) + data_length)
        ours = median_ms(WORK["inspect"], path, options.runs)
        theirs = median_ms(WORK["gguf"], path, options.peer_runs)
        base = peak_mib("imports", path)
        print(f"header of {len(made):,} bytes, 339 tensors, {TOKENS:,} tokens")
        print(f"  inspect          {ours:10.1f} ms   peak {peak_mib('inspect', path):7.1f} MiB ({base:.1f} imported)")
        print(f"  gguf.GGUFReader  {theirs:10.1f} ms   peak {peak_mib('gguf', path):7.1f} MiB")
        print(f"  ratio            {theirs / ours:10.0f}")
        print_hash(path, options.megabytes)


def print_hash(path: Path, megabytes: int) -> None:
    """The part of the table about reading all of a file, which is made at ``path``."""
    size = megabytes << 20
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + _entry("general.architecture", 8, _text(b"x"))
        head += _text(b"w") + struct.pack("<IQIQ", 1, size // 4, 0, 0)
        file.write(head + bytes(-len(head) % 32))
        for _ in range(megabytes):
            file.write(block)
    print(f"full hash of {size:,} bytes")
    for cold in (False, True):
        print(" in memory" if not cold else " not in memory")
        full, plain = (median_ms(WORK[name], path, 5, cold=cold) for name in ("full", "hashlib"))
        for name, work, spent in (("inspect", "full", full), ("hashlib", "hashlib", plain)):
            print(
                f"  {name:16} {spent:10.1f} ms   {size / spent / 1000:7.0f} MB/s   peak {peak_mib(work, path):.1f} MiB"
            )
        print(f"  ratio            {full / plain:10.2f}")
    rate = size // 4
    start = time.perf_counter()
    inspect_once(path, "full", rate)
    spent = time.perf_counter() - start
    print(f"at a rate of {rate:,} bytes a second")
    print(f"  inspect          {spent * 1000:10.1f} ms   {size / spent / 1e6:7.0f} MB/s   wanted {rate / 1e6:.0f}")


if __name__ == "__main__":
    main()
