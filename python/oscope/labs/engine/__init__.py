"""The engine of the labs: from a question that is declared as data to a section with table and figure.

`run` chooses points, `quantity` and `contrast` compute and compare, `table`, `drawing` and `curves` declare
what is shown, `words` writes figures, and `question` puts a section together.
"""
