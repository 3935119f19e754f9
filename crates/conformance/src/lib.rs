//! Nothing: the tests of this package start the program `oscope-probe` that is built beside them.
