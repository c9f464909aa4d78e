"""Parts of ``make bench-predict``: measured runs, splits, rivals, figures."""
