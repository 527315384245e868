"""The report page, one HTML file about any number of runs.

`writing` is the entry point. It finds and reads the runs (`reading`, `contents`) and groups those that can be compared
(`board`). Figures are drawn with matplotlib (`board_figures` and `run_figures`) and become themed SVG in the page
(`svg`); tables with coloured cells are in `heat`. `render` puts everything into the templates. `figure_files` draws the
same figures as SVG and PNG files.
"""
