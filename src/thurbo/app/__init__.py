"""What people see: report, explorer, command line, demo."""
