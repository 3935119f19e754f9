"""Values without measuring: units, samples, experiments, documents, errors. They import nothing of Oscope."""
