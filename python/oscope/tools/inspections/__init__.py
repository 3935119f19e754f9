"""The inspections of the lab of tools: what each does, as a JSON object that may be passed on."""
