"""Write docs/joint_orders.md: transfer of policies between simulators, and each robot's joints.

The tables are computed from the robots' models; run this again after changing one (a test compares
the page with the output)::

    python scripts/documentation/joint_orders.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from envlab.envs.joint_order import joint_names
from envlab.envs.scene import load_model

PAGE = Path(__file__).parents[2] / "docs/joint_orders.md"
ROBOTS = {
    "ANYmal D": ("anymal_d", "name"),
    "Spot": ("spot", "name"),
    "Unitree Go1": ("go1", "name"),
    "Unitree Go2": ("go2", "name"),
    "Unitree H1": ("h1", "name"),
    "Unitree G1": ("g1", "name"),
    "Ant": ("ant", "file"),
    "Humanoid": ("humanoid", "file"),
    "Allegro hand": ("allegro", "name"),
    "Franka Panda": ("franka", "name"),
}
"""Robot: its file in envlab_assets, and the Isaacs' order of bodies on the same parent."""
HEAD = """# Joint orders

<!-- Written by scripts/documentation/joint_orders.py from the robots' models: edit that. -->

Simulators put the joints of the same robot in different orders, and a policy knows its joints by
their places alone. Ours is MuJoCo's order: depth first, as in the file. Isaac Lab's is breadth
first, Isaac Gym's depth first; both sort what hangs on the same body by name, unless the robot came
from MJCF (Ant, Humanoid). `envlab.envs.joint_order` moves actions, observations and policies from
one order to another. A policy may be any library's, with its normalisers and its optimizer:

```python
import torch
from envlab.envs.joint_order import JointOrder, joint_names

model, columns = env.sim.model, env.observation_manager.columns("policy")
order = JointOrder(source=joint_names(model, "isaaclab"), target=joint_names(model, "envlab"))
starts = [columns[term].start for term in ("joint_pos", "joint_vel", "actions")]

state = torch.load("model_1499.pt", weights_only=True)["model_state_dict"]
state = order.policy(state, num_obs=env.single_observation_space["policy"].shape[0], starts=starts)
dataset["actions"] = order.actions(dataset["actions"])
dataset["observations"] = order.observations(dataset["observations"], starts)
```

`order.inverse()` is the way back, and `order.indices` is the permutation. For Ant and Humanoid give
`joint_names` the argument `siblings="file"`. Only the order of joints is changed: observations must
have the same terms in the same order, and joints the same zero and default positions, which the
tasks under Isaac Lab's ids have. `JointOrder` takes any two lists of the same names. Isaac Gym's
Humanoid has different names (`abdomen_z` is our `lower_waist:0`).

Isaac Lab's order was checked against lists that others printed from its G1, and against the
comments of `joint_gears` in its `humanoid_env.py` (2.3.2); for the other robots it follows from the
rule. No policy of Isaac Lab's was run here.
"""


def main() -> int:
    """Write the page."""
    PAGE.write_text(page())
    return 0


def page() -> str:
    """Return the text of docs/joint_orders.md."""
    return HEAD + "".join(section(title, *of) for title, of in ROBOTS.items())


def section(title: str, robot: str, siblings: str) -> str:
    """Return a robot's table; one line where the orders agree."""
    model = load_model(f"envlab_assets:robots/{robot}.xml")
    conventions = ("envlab", "isaaclab", "isaacgym")
    orders = [joint_names(model, name, siblings=siblings) for name in conventions]  # type: ignore[arg-type]
    text = f"\n## {title}\n\n"
    if orders[0] == orders[1] == orders[2]:
        return text + f"The three orders agree: {', '.join(f'`{name}`' for name in orders[0])}.\n"
    text += "| | ours | Isaac Lab | Isaac Gym |\n|---|---|---|---|\n"
    rows = enumerate(zip(*orders, strict=True))
    return text + "".join(f"| {i} | {' | '.join(f'`{n}`' for n in row)} |\n" for i, row in rows)


if __name__ == "__main__":
    sys.exit(main())
