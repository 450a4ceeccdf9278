"""The live viewer: environments in a browser during training or play.

The page is a separate process (:mod:`~envlab_web.viewer.page`), because drawing a frame takes
1.4 ms of Python for four Go2, 30 times a second, and would stop the training for that long. The run
(:mod:`~envlab_web.viewer.web`) only answers the page's requests for frames: it copies positions of
the shown environments, which takes a tenth of that, and reads the visitor's wishes.

It is drawn by viser 1.1 with mjviser's meshes. ``mujoco.studio`` 4.0 comes with MuJoCo and draws
shadows, but listens on every interface without authentication, shows one environment, and
lets one visitor steer.
"""
