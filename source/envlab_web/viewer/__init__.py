"""The live viewer: environments in a browser while they are trained or played in.

The page is a process of its own (:mod:`~envlab_web.viewer.page`), because to draw a frame takes
1.4 ms of Python for four Go2, 30 times a second, during which a training could not go on. The run
(:mod:`~envlab_web.viewer.web`) only answers when the page asks for a frame: it copies positions of
the environments that are shown, which takes a tenth of that, and reads what the visitor wants.

It is drawn by viser 1.1 with mjviser's meshes. ``mujoco.studio`` 4.0 comes with MuJoCo and draws
shadows, but listens on every interface without asking who is there, shows one environment, and
lets one visitor steer.
"""
