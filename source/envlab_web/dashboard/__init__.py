"""``envlab dashboard``: run directories in the browser.

Starlette serves it, uvicorn listens, Jinja2 fills the pages, and uPlot 1.6.32 (``static/``, with
its licence) draws the curves. Nothing is loaded from another address. A visitor's input is only
ever looked up among the runs and files that the server has found itself.
"""
