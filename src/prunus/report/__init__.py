"""Results for readers: tables, plots, model cards and the report page."""
