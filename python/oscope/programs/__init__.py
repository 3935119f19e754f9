"""Any program as an experiment: what `oscope bench` measures, as a plan like any other, and what it found."""
