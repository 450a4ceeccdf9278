"""Pages for a browser: the viewer of environments, and the dashboard of runs.

:mod:`envlab_web.viewer` shows environments while they train or play; :mod:`envlab_web.dashboard`
shows run directories. Both are served at an ``address`` of this machine alone, with a token.
"""
