"""Tables, files and dataframe libraries; `table` is the one record that everything is read into."""
