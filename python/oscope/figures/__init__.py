"""Tables and figures of results, as values that a report, a terminal or a notebook can draw."""
