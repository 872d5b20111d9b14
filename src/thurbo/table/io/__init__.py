"""Tables, files and dataframe libraries: every kind of table is read into one record, `Table`."""
