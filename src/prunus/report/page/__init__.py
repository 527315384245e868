"""The report page, one HTML file about any number of runs.

`writing` is the entry point. It finds and reads the runs (`reading`, `contents`) and groups those that can be compared
(`board`). Figures are plain data for plotly.js (`board_figures` and `run_figures`, built from `plot`); `render` puts
them into the templates. `figure_files` draws the same figures as SVG and PNG files.
"""
