"""Where runs are kept: the database, its schema, reader, writer, records, exports and data frames."""
