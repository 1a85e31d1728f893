"""The progress line: what it says, and how seldom."""

from __future__ import annotations

from auditd.report.columns import width
from auditd.report.progress import ProgressLine, progress_line

MIB = 2**20


def test_says_bytes_share_rate_and_time_left() -> None:
    line = progress_line("/srv/model.gguf", 256 * MIB, 1024 * MIB, 2.0, 80)
    assert line == "256 MiB of 1.0 GiB  25%  128 MiB/s  6 s left  /srv/model.gguf"


def test_says_no_rate_before_it_means_something() -> None:
    assert progress_line("a.gguf", MIB, 4 * MIB, 0.2, 80) == "1.0 MiB of 4.0 MiB  25%  a.gguf"


def test_nothing_wanted_and_nothing_done_are_no_division_by_zero() -> None:
    assert progress_line("a.gguf", 0, 0, 5, 80) == "0 B of 0 B  a.gguf"


def test_the_name_gives_way_first() -> None:
    long = "模" * 60 + ".gguf"
    assert width(progress_line(long, 256 * MIB, 1024 * MIB, 2.0, 70)) <= 70
    assert progress_line(long, 256 * MIB, 1024 * MIB, 2.0, 50) == "256 MiB of 1.0 GiB  25%  128 MiB/s  6 s left"
    assert len(progress_line(long, 256 * MIB, 1024 * MIB, 2.0, 20)) == 20


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_waits_draws_ten_times_a_second_and_wipes() -> None:
    drawn: list[str] = []
    clock = Clock()
    line = ProgressLine(drawn.append, 80, clock)
    line.begin("a.gguf")
    for step in range(0, 2000, 10):
        clock.now = step / 1000
        line.update(step, 2000)
    assert 14 <= len(drawn) <= 16
    assert all(text.startswith("\r\x1b[K") for text in drawn)
    line.clear()
    assert drawn[-1] == "\r\x1b[K"
    line.clear()
    assert drawn.count("\r\x1b[K") == 1


def test_many_quick_files_are_seen_too() -> None:
    drawn: list[str] = []
    clock = Clock()
    line = ProgressLine(drawn.append, 80, clock)
    for number in range(100):
        clock.now = number / 50
        line.begin(f"{number}.gguf")
        line.update(10, 10)
    assert drawn[-1].endswith("98.gguf") or drawn[-1].endswith("99.gguf")
