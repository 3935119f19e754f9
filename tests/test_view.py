"""`oscope view` as a server: who may read, what the pages say, and that nothing is written."""

from __future__ import annotations

import contextlib
import hashlib
import re
import signal
import socket
import sqlite3
from html import unescape
from pathlib import Path

import orjson
import pytest
import sqlalchemy as sa

from cli_driver import CommandLine
from injected import mark_as_injected
from oscope.model.errors import StoreError
from oscope.storage import schema
from oscope.storage.store import Store
from viewed import CHANGED_AT, MEASURE, Viewed, command_in, multiply, viewing

PAGES = ("/", "/compare", "/history", "/newest", "/static/view.js", "/runs/last")


def plain(page: str) -> str:
    """Return the words of a page."""
    text = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


# ---- who may read


@pytest.mark.parametrize("target", [*PAGES, "/no-such-page"])
def test_without_the_token_nothing_is_shown(viewed: Viewed, target: str) -> None:
    answer = viewed.ask(target, known=False)
    assert answer.status == 403
    assert "token that oscope view printed" in answer.text
    assert "20" + "26" not in answer.text


@pytest.mark.parametrize("token", ["", "x", "é", "A" * 43])
def test_a_wrong_token_lets_nobody_in(viewed: Viewed, token: str) -> None:
    from urllib.parse import quote

    answer = viewed.ask(f"/?token={quote(token)}", known=False)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    cookie = viewed.cookie.partition("=")[0]
    assert viewed.ask("/", known=False, Cookie=f"{cookie}={quote(token)}").status == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(viewed: Viewed) -> None:
    answer = viewed.ask(f"/history?experiment=syscall.cost&token={viewed.token}", known=False)
    assert (answer.status, answer.headers["location"]) == (303, "/history?experiment=syscall.cost")
    assert answer.headers["set-cookie"].startswith(viewed.cookie)
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert viewed.ask("/").status == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "//evil.example//"])
def test_the_token_leads_to_no_other_site(viewed: Viewed, path: str) -> None:
    answer = viewed.ask(f"{path}?token={viewed.token}")
    assert answer.status in (303, 400)
    assert answer.status == 400 or re.match(r"/(?![/\\])", answer.headers["location"])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil.example", ""]
)
def test_another_host_name_is_refused(viewed: Viewed, host: str) -> None:
    """A name of another site that leads to this machine (DNS rebinding)."""
    name = host.format(port=viewed.host.rpartition(":")[2])
    assert viewed.ask("/", Host=name).status == 421
    assert viewed.ask(f"/?token={viewed.token}", Host=name).status == 421


def test_localhost_is_this_machine(viewed: Viewed) -> None:
    assert viewed.ask("/", Host=f"localhost:{viewed.host.rpartition(':')[2]}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_only_reading_is_answered(viewed: Viewed, method: str) -> None:
    answer = viewed.ask("/", method)
    assert answer.status == 405
    assert viewed.ask("/", method, known=False).status == 403


def test_only_this_machine_can_connect(viewed: Viewed) -> None:
    port = int(viewed.host.rpartition(":")[2])
    addresses = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)}
    listening = Path("/proc/net/tcp").read_text().splitlines()[1:]
    mine = [
        line.split()[1]
        for line in listening
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    ]
    assert mine == [f"0100007F:{port:04X}"]
    for address in addresses - {"127.0.0.1"}:
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((address, port), timeout=5).close()


def test_every_answer_keeps_to_itself(viewed: Viewed) -> None:
    for target in PAGES:
        headers = viewed.ask(target).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "http" not in policy
        assert "*" not in policy
        assert "server" not in headers


@pytest.mark.parametrize(
    "target",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/../../etc/passwd",
        "/static/report.html.j2",
    ],
)
def test_no_other_file_can_be_had(viewed: Viewed, target: str) -> None:
    answer = viewed.ask(target)
    assert answer.status == 404
    assert "root:x:" not in answer.text
    assert "import annotations" not in answer.text


@pytest.mark.parametrize(
    "name",
    ["%00", "%27%20OR%201=1", "%25", "_", "a%2Fb", "..", "%F0%9F%92%A9", "%3Cscript%3E", "x" * 3000, "%FF"],
)
def test_a_run_of_odd_name_is_not_there(viewed: Viewed, name: str) -> None:
    for target in (
        f"/runs/{name}",
        f"/runs/{name}/live",
        f"/runs/{name}/report",
        f"/compare?a={name}&b=last",
    ):
        answer = viewed.ask(target)
        assert answer.status == 404, target
        assert "<script>" not in answer.text.replace('<script src="/static/', "")
        assert "Traceback" not in answer.text
    assert viewed.ask(f"/runs/last/experiments/{name}").status in (303, 404)


@pytest.mark.parametrize("value", ["%3Cscript%3Ealert(1)%3C/script%3E", "%22%3E%3Cimg%20src=x%3E"])
def test_what_a_query_says_is_never_markup(viewed: Viewed, value: str) -> None:
    for target in (
        f"/?name={value}",
        f"/?experiment={value}",
        f"/history?experiment={value}",
        f"/history?metric={value}",
    ):
        answer = viewed.ask(target)
        assert answer.status == 200
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text


# ---- nothing is written


def files_of(oscope: CommandLine) -> dict[str, tuple[str, int]]:
    store = Path(oscope.environment["OSCOPE_STORE"])
    return {store.name: (hashlib.sha256(store.read_bytes()).hexdigest(), store.stat().st_mtime_ns)}


def test_the_database_is_as_before(stored: CommandLine) -> None:
    before = files_of(stored)
    with viewing(stored, "last") as viewed:
        run = viewed.ask("/runs/last").headers["location"]
        others = stored.runs()
        for target in (*PAGES, run, f"{run}/report", f"{run}/live", f"/compare?a={others[0]}&b={others[1]}"):
            assert viewed.ask(target).status in (200, 303), target
        assert files_of(stored) == before
        viewed.stop()
    assert files_of(stored) == before


def test_the_database_itself_refuses_to_be_written(stored: CommandLine) -> None:
    place = stored.environment["OSCOPE_STORE"]
    with (
        Store.read(place, read_only=True) as store,
        pytest.raises(StoreError, match="cannot be written"),
        store.reading() as connection,
    ):
        connection.execute(sa.delete(schema.sample))
    with contextlib.closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as database:
        assert database.execute("SELECT count(*) FROM sample").fetchone()[0] > 0


# ---- what the pages say


def test_the_list_has_every_run_the_newest_first(viewed: Viewed, stored: CommandLine) -> None:
    page = viewed.page("/")
    shown = re.findall(r'href="/runs/([^"/]+)"', page)
    assert shown == stored.runs()[::-1]
    assert f"{len(shown)} of {len(shown)} runs" in plain(page)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("name=syscall", 11),
        ("name=SYSCALL.c", 11),
        ("name=nothing", 0),
        ("experiment=syscall.cost", 11),
        ("experiment=process.create", 0),
        ("machine=" + "f" * 16, 1),
        ("machine=0123456789abcdef", 10),
        ("since=2020-01-01&until=2020-12-31", 0),
        ("since=2020-01-01", 11),
        ("until=yesterday", 11),
    ],
)
def test_the_list_is_filtered(viewed: Viewed, query: str, count: int) -> None:
    page = viewed.page(f"/?{query}")
    assert len(re.findall(r'href="/runs/[^"/]+"', page)) == count
    assert f"{count} of 11 runs" in plain(page)


def test_runs_of_programs_have_their_names_and_a_same_one_is_suggested(
    tmp_path: Path, real_probe: Path
) -> None:
    oscope = command_in(tmp_path)
    oscope.environment["OSCOPE_PROBE"] = str(real_probe)
    measured = (("echo", "1"), ("echo", "2"), ("echo", "1"), ("echo", "3"))
    for command in measured:
        assert oscope("bench", "--reps", "2", "--", *command).code == 0
    first, second, third, fourth = (
        str(row["run"]) for row in orjson.loads(oscope("runs", "--format", "json").out)[0]["rows"]
    )
    with viewing(oscope) as viewed:
        page = viewed.page("/")
        assert re.findall(r"command\.run: [^<]*", page) == [
            f"command.run: {' '.join(command)}" for command in reversed(measured)
        ]
        assert re.findall(r'name="([ab])" value="([^"]*)"[^>]* checked', page) == [("b", third), ("a", first)]
        chosen = re.findall(r'<option value="([^"]*)" selected>([^<]*)', viewed.page("/compare"))
        assert [run for run, _ in chosen] == [first, third]
        assert all("echo 1" in text for _, text in chosen)
        assert viewed.page("/?name=echo+3").count('type="radio"') == 2
        assert " checked" not in viewed.page(f"/?name={fourth}") + viewed.page(f"/?name={second}")


def test_the_start_of_an_id_leads_to_the_run(viewed: Viewed, stored: CommandLine) -> None:
    last = stored.runs()[-1]
    assert viewed.ask("/runs/last").headers["location"] == f"/runs/{last}"
    assert viewed.ask(f"/runs/{last[:-1]}").headers["location"] == f"/runs/{last}"


def test_a_run_has_the_medians_that_show_prints(viewed: Viewed, stored: CommandLine) -> None:
    last = stored.runs()[-1]
    shown = stored("show", last).out
    medians = re.findall(r"^(getppid|read) +([\d.]+)", shown, re.MULTILINE)
    words = plain(viewed.page(f"/runs/{last}"))
    assert len(medians) == 2
    for call, median in medians:
        assert re.search(rf"\b{call} \d+ .*?{re.escape(median)}", words)


def test_one_sample_is_counted_as_one(tmp_path: Path) -> None:
    oscope = command_in(tmp_path)
    words = ("run", "syscall.cost", "--set", "call=read", "--set", "style=loop", "--reps", "1", "--no-again")
    assert oscope(*words).code == 0
    (run,) = oscope.runs()
    with viewing(oscope) as viewed:
        assert "1 sample of 1 point was taken" in plain(viewed.page(f"/runs/{run}/report"))
        assert '<td class="number" data-noun="sample">1</td>' in viewed.page("/")
        for page in ("/", f"/runs/{run}", f"/runs/{run}/report", "/history"):
            assert "1 samples" not in plain(viewed.page(page))


def test_the_report_of_a_run_is_the_file_that_report_writes(viewed: Viewed, stored: CommandLine) -> None:
    last = stored.runs()[-1]
    assert viewed.page(f"/runs/{last}/report") == stored("report", last, "-o", "-").out


def check_comparison(viewed: Viewed, oscope: CommandLine, a: str, b: str) -> str:
    """Check that all that `compare` prints is on the page; return what it prints."""
    printed = oscope("compare", a, b, COLUMNS="400").out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    rows = [line for line in lines if re.match(r"(getppid|read) time_ns ", line)]
    words = plain(viewed.page(f"/compare?a={a}&b={b}"))
    # Each call's time; its cycles are the same quantity.
    assert len(rows) == 2
    (heading,) = (number for number, line in enumerate(lines) if line.startswith("call metric "))
    # The title names the experiment, which is a heading of its own on the page.
    for line in (*lines[1:heading], *lines[heading + 2 :]):
        for option, instead in (
            ("take more: --reps, or a longer --budget", "take more samples"),
            ("with --format csv", f"with oscope compare {a} {b} --format csv"),
        ):
            line = line.replace(option, instead)
        assert line in words
    assert options_in(words) == []
    return printed


def options_in(words: str) -> list[str]:
    """Return the options of the command line that a page names outside a command."""
    return re.findall(r"(?<!\S)--[a-z-]+", re.sub(r"oscope (?:[^:;,.]|[:;,.](?=\S))*", "", words))


def test_a_comparison_has_all_that_compare_prints(viewed: Viewed, stored: CommandLine) -> None:
    runs = stored.runs()
    check_comparison(viewed, stored, runs[0], runs[1])
    check_comparison(viewed, stored, runs[0], runs[CHANGED_AT])


def test_a_difference_is_told_in_the_words_of_compare(tmp_path: Path) -> None:
    oscope = command_in(tmp_path)
    for _ in range(2):
        assert oscope(*MEASURE).code == 0
    a, b = oscope.runs()
    multiply(oscope, [b], 50)
    with viewing(oscope) as viewed:
        printed = check_comparison(viewed, oscope, a, b)
        assert re.search(r"getppid · time_ns: [\d.]+ → [\d.]+ µs: B is", printed)
        figure = re.search(r'"name":"([^"]*)"', viewed.page(f"/compare?a={a}&b={b}"))
        assert figure is not None
        assert figure[1] == "different, and it matters"


def test_a_comparison_says_which_run_not_to_trust(tmp_path: Path) -> None:
    oscope = command_in(tmp_path)
    for _ in range(2):
        assert oscope(*MEASURE).code == 0
    a, b = oscope.runs()
    failed = '{"ratio_of_double_work": 7.9, "ok": false}'
    with contextlib.closing(sqlite3.connect(oscope.environment["OSCOPE_STORE"])) as database, database:
        database.execute(
            "UPDATE event SET data = json_set(data, '$.self_check', json(?)) "
            "WHERE kind = 'environment' AND run_id = ?",
            (failed, b),
        )
    with viewing(oscope) as viewed:
        assert f"run {b}: do not trust its figures" in check_comparison(viewed, oscope, a, b)


def test_other_machines_are_compared_only_if_that_is_allowed(viewed: Viewed, stored: CommandLine) -> None:
    a, b = stored.runs()[0], stored.runs()[-1]
    refused = plain(viewed.page(f"/compare?a={a}&b={b}"))
    assert "cannot compare" in refused
    assert "machine" in refused
    assert "tick the box above" in refused
    assert options_in(refused) == []
    itself = plain(viewed.page(f"/compare?a={a}&b={a}"))
    assert "A and B are the same run: choose another one for A or B" in itself
    assert options_in(itself) == []
    allowed = plain(viewed.page(f"/compare?a={a}&b={b}&machine=1"))
    assert "cannot compare" not in allowed
    assert "B/A" in allowed


def test_the_history_tells_what_history_prints(viewed: Viewed, stored: CommandLine) -> None:
    printed = " ".join(stored("history", "syscall.cost", COLUMNS="400").out.split())
    words = plain(viewed.page("/history?experiment=syscall.cost"))
    found = re.findall(r"change: \w+ · time_ns: [\d.]+ → [\d.]+ \S+, [^;]*; changed there: \w+", printed)
    assert len(found) == 2
    for text in found:
        assert text in words
    assert all(stored.runs()[CHANGED_AT] in text for text in found)
    assert all(run in words for run in stored.runs())


def test_runs_with_injected_interference_are_told(filled: Path, tmp_path: Path) -> None:
    oscope = command_in(tmp_path)
    store = Path(oscope.environment["OSCOPE_STORE"])
    store.write_bytes(filled.read_bytes())
    a, b = oscope.runs()[:2]
    mark_as_injected(store, b)
    with viewing(oscope) as viewed:
        caveat = "B was measured with injected interference (hog): no clean measurement"
        assert caveat in plain(viewed.page(f"/compare?a={a}&b={b}"))
        past = plain(viewed.page("/history?experiment=syscall.cost"))
        assert "1 run with injected interference is left out" in past
        assert a in past
        assert b not in past


# ---- the command


def test_an_empty_store_says_how_to_begin(tmp_path: Path) -> None:
    oscope = command_in(tmp_path)
    with viewing(oscope) as viewed:
        assert "No run yet" in viewed.page("/")
        assert "oscope run" in plain(viewed.page("/"))
        assert "two runs" in plain(viewed.page("/compare"))
        assert "no samples yet" in plain(viewed.page("/history"))
        assert viewed.ask("/runs/last").status == 404
    assert not Path(oscope.environment["OSCOPE_STORE"]).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(stored: CommandLine, number: int) -> None:
    with viewing(stored) as viewed:
        assert viewed.ask("/").status == 200
        assert viewed.stop(number) == (0, "", "Ctrl-C ends it.\n")


def test_a_port_that_is_taken_is_one_line(stored: CommandLine, viewed: Viewed) -> None:
    port = viewed.host.rpartition(":")[2]
    answer = stored("view", "--no-browser", "--port", port)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines() == [
        f"oscope: port {port} of 127.0.0.1 is taken: name another --port, or leave it out for a free one"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [(("20999",), "the store has no run '20999'"), (("--port", "70000"), "--port 70000 is out of range")],
)
def test_a_wrong_request_is_one_line(stored: CommandLine, words: tuple[str, ...], message: str) -> None:
    answer = stored("view", "--no-browser", *words)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert message in answer.err


def test_it_begins_with_the_run_that_is_named(stored: CommandLine) -> None:
    with viewing(stored, "last") as viewed:
        assert f"/runs/{stored.runs()[-1]}?token=" in viewed.address
