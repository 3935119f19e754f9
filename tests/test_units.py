from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oscope.model import units
from oscope.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1B", 1),
        ("128K", 131072),
        ("128k", 131072),
        ("128KiB", 131072),
        ("64kB", 64000),
        ("1M", 1048576),
        ("1MB", 1000000),
        ("1GiB", 1073741824),
        ("1.5G", 1610612736),
        ("2 MiB", 2097152),
        ("1TB", 10**12),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "K", "-1", "1.5", "12X", "1KB", "1e3", "0x10", "1K1", "nan", "inf", "1 2"]
)
def test_what_is_no_size_is_named(text: str) -> None:
    with pytest.raises(UsageError) as error:
        units.parse_bytes(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10.0),
        ("10", 10.0),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("2min", 120.0),
        ("1h", 3600.0),
        ("1.5s", 1.5),
        ("200us", 0.0002),
        ("200µs", 0.0002),
        ("5ns", 5e-9),
        (".5s", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "10 parsecs", "1M", "nan", "1:30"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(UsageError) as error:
        units.parse_duration(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "share"), [("2%", 0.02), ("0.02", 0.02), ("2.5 %", 0.025), ("0", 0.0), ("150%", 1.5)]
)
def test_shares(text: str, share: float) -> None:
    assert units.parse_share(text) == share


@pytest.mark.parametrize("text", ["", "%", "-2%", "2 percent", "2‰", "1", "5", "5.0"])
def test_what_is_no_share_is_named(text: str) -> None:
    with pytest.raises(UsageError) as error:
        units.parse_share(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1536 B"),
        (2**30, "1 GiB"),
        (1_502_860, "1502860 B"),
        (12_500_000, "12.5 MB"),
        (125_000_000, "125 MB"),
        (1_250_000_000, "1250 MB"),
    ],
)
def test_sizes_are_written_exactly(size: int, text: str) -> None:
    assert units.format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (10.0, "10 s"),
        (0.5, "500 ms"),
        (0.0002, "200 µs"),
        (5e-9, "5 ns"),
        (90.0, "1.5 min"),
        (3600.0, "1 h"),
        (61.0, "61 s"),
    ],
)
def test_durations_are_written_exactly(seconds: float, text: str) -> None:
    assert units.format_duration(seconds) == text


@given(st.integers(0, 2**50))
def test_a_written_size_reads_back(size: int) -> None:
    assert units.parse_bytes(units.format_bytes(size)) == size


@given(st.floats(1e-9, 1e6))
def test_a_written_duration_reads_back(seconds: float) -> None:
    assert units.parse_duration(units.format_duration(seconds)) == pytest.approx(seconds, rel=1e-12)


@given(st.floats(0.0001, 0.9999))
def test_a_written_share_reads_back(share: float) -> None:
    assert units.parse_share(units.format_share(share)) == pytest.approx(share, rel=1e-12)
