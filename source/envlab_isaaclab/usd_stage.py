"""``python -m envlab_isaaclab.usd_stage SOURCE TARGET``: a stage that MuJoCo's reader takes.

It is a separate process, because ``pxr`` is inert in a process that runs Isaac Lab's scripts.
"""

from __future__ import annotations

import sys

from pxr import Usd, UsdPhysics


def main(source: str, target: str) -> int:
    """Write a stage with a file's default prim alone, without what MuJoCo's reader refuses.

    The reader fails on an articulation's mark on a prim that is no body, and would turn prims
    outside the default one into shapes of the world.
    """
    default = Usd.Stage.Open(source).GetDefaultPrim()
    if not default:
        print("it has no default prim, which would be the robot", file=sys.stderr)
        return 1
    stage = Usd.Stage.CreateNew(target)
    prim = stage.DefinePrim(f"/{default.GetName()}")
    prim.GetReferences().AddReference(source)
    stage.SetDefaultPrim(prim)
    for one in Usd.PrimRange(prim):
        if one.HasAPI(UsdPhysics.ArticulationRootAPI) and not one.HasAPI(UsdPhysics.RigidBodyAPI):
            one.RemoveAPI(UsdPhysics.ArticulationRootAPI)
    stage.Save()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
