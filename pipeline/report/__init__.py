"""Views of the evaluations: tables, figures and the page."""
