"""hyperfine, pyperf, Google Benchmark, fio and criterion: what their JSON holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oscope.probe.catalogue import Metric
from oscope.tools.importing.value import (
    NO_BLOCKS,
    NO_ENVIRONMENT,
    ONE_PROCESS,
    ONLY_MEANS,
    TIME_NS,
    Imported,
    Reading,
    Series,
    WrongFileError,
    amount,
    member,
    merged,
    number,
    with_levels,
)

_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def hyperfine(data: Any) -> Imported:
    """Read what `hyperfine --export-json` writes: a time for each run of each command.

    Parameters (`-P`, `-L`) of commands of one name are levels.
    """
    found = []
    only_means = False
    for each in member(data, "results", list, "the file"):
        name = str(member(each, "command", str, "a result"))
        times = each.get("times")
        if times is None:
            only_means = True
            times = [each.get("mean")]
        codes = each.get("exit_codes") or [0] * len(times)
        if len(codes) != len(times):
            raise WrongFileError(f"{name} has {len(times)} times, but {len(codes)} exit codes")
        readings = [
            # A run is a process.
            Reading({"time_ns": 1e9 * amount(time, f"a time of {name}")}, 1, block, _exit(code))
            for block, (time, code) in enumerate(zip(times, codes, strict=True))
        ]
        found.append((Series(name, readings), each.get("parameters") or {}))
    series, parameters = with_levels(found)
    lacks = (NO_BLOCKS, NO_ENVIRONMENT, *([ONLY_MEANS] if only_means else []))
    return Imported("hyperfine", (TIME_NS,), series, lacks, parameters=parameters)


def _exit(code: object) -> str | None:
    return None if code in (0, None) else f"the command ended with exit code {code}"


def pyperf(data: Any) -> Imported:
    """Read a file of pyperf: the values of each process, of each benchmark."""
    common = data.get("metadata") or {}
    series = []
    for each in member(data, "benchmarks", list, "the file"):
        own = {**common, **(each.get("metadata") or {})}
        name = str(own.get("name", "benchmark"))
        if own.get("unit", "second") != "second":
            raise WrongFileError(f"{name} is in {own['unit']}, and only times are read")
        readings = [
            Reading(
                {"time_ns": 1e9 * amount(value, f"a value of {name}")},
                _loops({**own, **(run.get("metadata") or {})}),
                block,
            )
            for block, run in enumerate(member(each, "runs", list, name))
            for value in run.get("values") or ()
        ]
        series.append(Series(name, readings))
    version = f"pyperf {common['perf_version']}" if "perf_version" in common else ""
    return Imported("pyperf", (TIME_NS,), merged(series), (NO_BLOCKS, NO_ENVIRONMENT), version)


def _loops(metadata: Mapping[str, Any]) -> int:
    return max(1, int(metadata.get("loops", 1)) * int(metadata.get("inner_loops", 1)))


def google_benchmark(data: Any) -> Imported:
    """Read the JSON of Google Benchmark: each repetition is a mean over its iterations."""
    found: dict[str, list[Reading]] = {}
    means: dict[str, list[Reading]] = {}
    for each in member(data, "benchmarks", list, "the file"):
        name = str(each.get("run_name") or member(each, "name", str, "a benchmark"))
        if each.get("run_type", "iteration") == "aggregate":
            if each.get("aggregate_name") == "mean":
                means.setdefault(name, []).append(_google_reading(each, name))
            continue
        failed = _google_failure(each)
        reading = Reading({}, 1, 0, failed) if failed else _google_reading(each, name)
        found.setdefault(name, []).append(reading)
    found |= {name: readings for name, readings in means.items() if name not in found}
    cpu = Metric("cpu_time_ns", "ns", "less", "CPU time of one iteration, as the tool gives it.")
    alone = all(len(readings) == 1 for readings in found.values())
    lacks = (NO_BLOCKS, NO_ENVIRONMENT, ONE_PROCESS, *([ONLY_MEANS] if alone else []))
    series = tuple(Series(name, readings) for name, readings in found.items())
    return Imported("google-benchmark", (TIME_NS, cpu), series, lacks, str(data["context"].get("date") or ""))


def _google_failure(each: Mapping[str, Any]) -> str | None:
    """Return why a benchmark was not measured; such a one has times of 0."""
    if each.get("error_occurred"):
        return str(each.get("error_message") or "error")
    return f"skipped: {each.get('skip_message') or 'no reason given'}" if each.get("skipped") else None


def _google_reading(each: Mapping[str, Any], name: str) -> Reading:
    scale = _UNITS.get(str(each.get("time_unit", "ns")))
    if scale is None:
        raise WrongFileError(f"{name} has the unknown time unit {each['time_unit']!r}")
    times = {"time_ns": "real_time", "cpu_time_ns": "cpu_time"}
    metrics = {own: scale * amount(each.get(theirs), f"{theirs} of {name}") for own, theirs in times.items()}
    return Reading(metrics, max(1, int(each.get("iterations", 1))))


_FIO = (
    Metric("iops", "1/s", "more", "Requests a second."),
    Metric("bytes_per_s", "B/s", "more", "Bytes a second."),
    Metric("latency_ns", "ns", "less", "Mean of the whole latency of a request."),
    Metric("latency_p99_ns", "ns", "less", "99th percentile of the completion latency."),
)


def fio(data: Any) -> Imported:
    """Read what `fio --output-format=json` writes: a mean for each job and direction that did something.

    Options that differ between jobs of one name are levels; jobs of one name and equal options are samples.
    """
    found = []
    for job in member(data, "jobs", list, "the file"):
        name = str(member(job, "jobname", str, "a job"))
        code = job.get("error")
        for way in ("read", "write", "trim"):
            part = job.get(way)
            if isinstance(part, dict) and part.get("io_bytes"):
                reading = _fio_reading(part, f"{name} {way}", None if not code else f"fio's error {code}")
                found.append((Series(f"{name} {way}", [reading]), job.get("job options") or {}))
    series, parameters = with_levels(found)
    about = ", ".join(str(data[each]) for each in ("fio version", "time") if data.get(each))
    lacks = (NO_BLOCKS, NO_ENVIRONMENT, ONLY_MEANS)
    return Imported("fio", _FIO, series, lacks, about, parameters=parameters)


def _fio_reading(part: Mapping[str, Any], where: str, failed: str | None) -> Reading:
    if failed:
        return Reading({}, failed=failed)
    latency = part.get("lat_ns") or {}
    completion = part.get("clat_ns") or {}
    p99 = None if _is_off(completion) else (completion.get("percentile") or {}).get("99.000000")
    return Reading(
        {
            "iops": amount(part.get("iops"), f"iops of {where}"),
            "bytes_per_s": amount(part.get("bw_bytes"), f"bw_bytes of {where}"),
            "latency_ns": None if _is_off(latency) else amount(latency.get("mean"), f"lat_ns of {where}"),
            "latency_p99_ns": None if p99 is None else amount(p99, f"the 99th percentile of {where}"),
        }
    )


def _is_off(latency: Mapping[str, Any]) -> bool:
    """Say whether fio did not measure a latency (`gtod_reduce`, `disable_lat`), for which it writes 0."""
    return latency.get("N") == 0 or latency.get("max") == latency.get("mean") == 0


def criterion_sample(data: Any, name: str) -> Series:
    """Return the samples of criterion's `sample.json`: the time of so many iterations each."""
    iterations = member(data, "iters", list, "the file")
    times = member(data, "times", list, "the file")
    if len(iterations) != len(times) or not times:
        raise WrongFileError("iters and times differ in length, or are empty")
    readings = []
    for count, time in zip(iterations, times, strict=True):
        turns = number(count, "a number of iters")
        if turns < 1:
            raise WrongFileError(f"a number of iters is {turns:g}")
        readings.append(Reading({"time_ns": amount(time, "a time") / turns}, int(turns)))
    return Series(name, readings)


def criterion_estimates(data: Any, name: str) -> Series:
    """Return the mean of criterion's `estimates.json`."""
    mean = member(data, "mean", dict, "the file")
    return Series(
        name, [Reading({"time_ns": amount(mean.get("point_estimate"), "the mean's point_estimate")})]
    )


def criterion(series: tuple[Series, ...], *, only_means: bool) -> Imported:
    """Return what was found in criterion's files."""
    lacks = (NO_BLOCKS, NO_ENVIRONMENT, ONE_PROCESS, *([ONLY_MEANS] if only_means else []))
    return Imported("criterion", (TIME_NS,), series, lacks)
