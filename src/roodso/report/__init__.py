"""The report: one HTML file that shows a decision, its worst case and its reasons.

It needs jinja2 and matplotlib: ``pip install 'roodso[report]'``.
"""

try:
    import jinja2  # noqa: F401
    import matplotlib as mpl  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"reports need {error.name}: pip install 'roodso[report]'", name=error.name
    ) from None

from roodso.report.page import build_report, write_report

__all__ = ["build_report", "write_report"]
