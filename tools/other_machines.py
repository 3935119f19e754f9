"""Write python/oscope/report/elsewhere.json: the figures of a survey that reports of other machines show.

    oscope export RUN --format json -o survey.json
    python tools/other_machines.py survey.json

Take the survey on a machine that does nothing else; figures whose interval is wide are left out.
"""

from __future__ import annotations

import sys

from oscope.model.atomic_write import write_bytes
from oscope.report import other_machines
from oscope.report.machine import date
from oscope.storage import record


def main(path: str) -> None:
    """Write the file from the record at `path`."""
    results = record.read(path)
    source = f"survey of {date(results.parts[0].started)}, kept with Oscope"
    write_bytes(other_machines.STORED, other_machines.to_json(results, source).encode())
    print(other_machines.STORED)


if __name__ == "__main__":
    main(sys.argv[1])
