"""How often verdicts are wrong here: pairs of equal measurements, and pairs whose difference is known."""
