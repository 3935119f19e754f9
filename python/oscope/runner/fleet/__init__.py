"""A fleet: one plan on many hosts, in randomised rounds, by Dask."""
