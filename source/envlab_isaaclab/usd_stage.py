"""``python -m envlab_isaaclab.usd_stage SOURCE TARGET``: a stage that MuJoCo's reader takes.

It is a separate process, because ``pxr`` is inert in a process that runs Isaac Lab's scripts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pxr import Tf, Usd, UsdPhysics, UsdUtils


def main(source: str, target: str) -> int:
    """Write a stage with a file's default prim alone, without what MuJoCo's reader refuses.

    The reader fails on an articulation's mark on a prim that is no body, and would turn prims
    outside the default one into shapes of the world.
    """
    try:
        opened = Usd.Stage.Open(source)  # its prims are invalid when nothing holds the stage
    except Tf.ErrorException as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    _, _, absent = UsdUtils.ComputeAllDependencies(source)
    layers = [one for one in absent if Path(one).suffix.startswith(".usd")]
    if layers:
        print(f"its layer {layers[0]} is missing", file=sys.stderr)
        return 1
    default = opened.GetDefaultPrim()
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
