"""Commands around tasks, datasets and policies: a module for each, called as its command.

``envlab list``, ``terms`` and ``check`` (whose trials are in ``probe``) look at tasks; ``new``
makes one, ``warm`` compiles its kernels, ``view --terrain`` and ``export-scene`` show what it
consists of. ``random``, ``zero`` and ``scripted`` step it (:mod:`envlab.tools.agents`). ``record``
and ``replay`` write and read episodes, ``record_hand`` those that a person steers. ``runs``,
``push``, ``deploy``, ``motion`` and ``evidence`` work on what trainings leave. :mod:`envlab.cli`
has the table of commands; nothing else imports this room.
"""
